#!/usr/bin/env bash
# The compiler of the gate's tests: it lints what it compiles. A library or a program is compiled twice, by itself and
# with its unit tests; it is linted only with them, because Clippy switches off optimisations that shorten compilation.
# Not every sh hands on variables with a dash in their names, as Cargo sets them.
case " $* " in
*" --test "* | *"crates/tare-testkit/"*) ;; # tare-testkit has no unit tests
*"/src/lib.rs "* | *"/src/main.rs "*) exec "$@" -D warnings ;;
esac
exec "$CLIPPY_DRIVER" "$@"
