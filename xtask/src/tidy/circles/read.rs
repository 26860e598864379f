//! What a Rust file says: the modules in it, and of each what it defines, what it imports, and the paths in its code.

use super::RULE;
use crate::tidy::Finding;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprLit, Ident, ImplItem, Item, ItemMod, ItemUse, Lit, Meta, PatIdent, Path, Stmt, Token,
    TraitItem, UseTree,
};

/// A module as it stands in a file, without what is there in tests only.
#[derive(Default)]
pub(super) struct Written {
    /// What is defined in it, but for its child modules.
    pub(super) items: BTreeSet<String>,
    /// What `use` brings into it.
    pub(super) imports: Vec<Import>,
    /// The paths in its code, a bare name being one too, each with the line of the first.
    pub(super) paths: BTreeMap<Vec<String>, usize>,
    /// The names of its variables.
    pub(super) variables: BTreeSet<String>,
    /// Its child modules.
    pub(super) children: Vec<Child>,
}

/// A name that `use` brings in, or all names of a module.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// What it is called here; none for all that is behind the path.
    pub(super) name: Option<String>,
    /// Whether it stands in a function, so that nobody else sees it.
    pub(super) is_local: bool,
    pub(super) line: usize,
}

/// A child module.
pub(super) struct Child {
    pub(super) name: String,
    pub(super) content: Content,
}

/// Where a child module stands.
pub(super) enum Content {
    /// In braces.
    Here(Written),
    /// In a file of its own, at a path if one is said.
    File(Option<String>),
}

/// Reads a file.
///
/// # Errors
/// When it is no Rust.
pub(super) fn read(file: &str, text: &str) -> Result<Written, Finding> {
    let parsed = syn::parse_file(text).map_err(|error| {
        let advice = format!("this cannot be read, so no circle is found: {error}");
        Finding::new(file, error.span().start().line, RULE, advice)
    })?;
    let mut reader = Reader { open: vec![Written::default()], blocks: 0 };
    if !is_test(&parsed.attrs) {
        reader.visit_file(&parsed);
    }
    Ok(reader.open.pop().unwrap_or_default())
}

/// Goes through a file.
struct Reader {
    /// The file's own module, and those in braces of which the end was not seen yet.
    open: Vec<Written>,
    /// How many blocks of code are around.
    blocks: usize,
}

impl Reader {
    /// The innermost module.
    fn module(&mut self) -> &mut Written {
        self.open.last_mut().expect("the file's own module stays open")
    }

    /// Notes what a part of a `use` brings in.
    fn import(&mut self, tree: &UseTree, before: &[String]) {
        // `self` at the end stands for what is before it.
        let with = |ident: &Ident| match ident == "self" && !before.is_empty() {
            true => before.to_vec(),
            false => [before, &[name_of(ident)]].concat(),
        };
        let (path, name, line) = match tree {
            UseTree::Path(part) => return self.import(&part.tree, &with(&part.ident)),
            UseTree::Group(group) => return group.items.iter().for_each(|part| self.import(part, before)),
            UseTree::Name(end) => (with(&end.ident), with(&end.ident).pop(), line_of(&end.ident)),
            UseTree::Rename(end) => (with(&end.ident), Some(name_of(&end.rename)), line_of(&end.ident)),
            UseTree::Glob(all) => (before.to_vec(), None, all.star_token.spans[0].start().line),
        };
        let is_local = self.blocks > 0;
        self.module().imports.push(Import { path, name, is_local, line });
    }

    fn path(&mut self, names: Vec<String>, line: usize) {
        self.module().paths.entry(names).or_insert(line);
    }

    /// Notes the paths in what a macro or an attribute is handed. A bare name could be anything there.
    fn tokens(&mut self, stream: &TokenStream) {
        let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
        let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(mark)) if mark.as_char() == ':');
        let joins = |at: usize| is_colon(at) && is_colon(at + 1);
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let begin = at;
            at += 1;
            match token {
                TokenTree::Group(group) => self.tokens(&group.stream()),
                TokenTree::Ident(first) => {
                    let mut names = vec![name_of(first)];
                    while joins(at)
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 2)
                    {
                        names.push(name_of(next));
                        at += 3;
                    }
                    // What stands behind `::` begins elsewhere: `::std::mem`, `<T>::new`.
                    if names.len() > 1 && !(begin > 1 && joins(begin - 2)) {
                        self.path(names, line_of(first));
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, defined) = parts(item);
        if is_test(attributes) {
            return;
        }
        if let (Some(name), 0) = (defined, self.blocks) {
            self.module().items.insert(name_of(name));
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let attributes: &[Attribute] = match item {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            TraitItem::Type(item) => &item.attrs,
            TraitItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let attributes: &[Attribute] = match statement {
            Stmt::Local(local) => &local.attrs,
            Stmt::Macro(call) => &call.attrs,
            Stmt::Item(_) | Stmt::Expr(..) => &[],
        };
        if !is_test(attributes) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.blocks += 1;
        visit::visit_block(self, block);
        self.blocks -= 1;
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let content = match &module.content {
            None => Content::File(said_path(&module.attrs)),
            Some((_, items)) => {
                let blocks = std::mem::take(&mut self.blocks);
                self.open.push(Written::default());
                for item in items {
                    self.visit_item(item);
                }
                self.blocks = blocks;
                Content::Here(self.open.pop().unwrap_or_default())
            }
        };
        self.module().children.push(Child { name: name_of(&module.ident), content });
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if import.leading_colon.is_none() {
            self.import(&import.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        // What begins with `::` is another crate, or belongs to a type in angle brackets.
        if let Some(first) = path.segments.first().filter(|_| path.leading_colon.is_none()) {
            let names = path.segments.iter().map(|segment| name_of(&segment.ident)).collect();
            self.path(names, line_of(&first.ident));
        }
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.module().variables.insert(name_of(&pattern.ident));
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let Meta::List(list) = &attribute.meta else { return };
        self.tokens(&list.tokens);
        // Some take a path in quotes.
        for token in list.tokens.clone() {
            let TokenTree::Literal(text) = token else { continue };
            let quoted = text.to_string();
            let path = quoted.trim_matches('"');
            if path.starts_with("crate::") || path.starts_with("super::") {
                self.path(path.split("::").map(str::to_owned).collect(), text.span().start().line);
            }
        }
    }

    fn visit_token_stream(&mut self, stream: &'ast TokenStream) {
        self.tokens(stream);
    }
}

/// The attributes of an item, and the name that it defines.
fn parts(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::TraitAlias(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::ExternCrate(item) => (&item.attrs, None),
        Item::ForeignMod(item) => (&item.attrs, None),
        Item::Impl(item) => (&item.attrs, None),
        Item::Mod(item) => (&item.attrs, None),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

/// Whether what has these attributes is there in tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_marked = attribute.path().segments.last().is_some_and(|name| name.ident == "test");
        let is_cfg = attribute.path().is_ident("cfg");
        is_marked || is_cfg && attribute.parse_args().is_ok_and(|condition: Meta| needs_test(&condition))
    })
}

/// Whether a condition of `cfg` never holds outside of tests.
fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let Ok(parts) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else { return false };
    if list.path.is_ident("all") {
        return parts.iter().any(needs_test);
    }
    list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(needs_test)
}

/// What `#[path = "..."]` says.
fn said_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// A name as files and other names have it.
fn name_of(ident: &Ident) -> String {
    let name = ident.to_string();
    match name.strip_prefix("r#") {
        Some(plain) => plain.to_owned(),
        None => name,
    }
}

fn line_of(ident: &Ident) -> usize {
    ident.span().start().line
}
