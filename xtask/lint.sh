#!/bin/sh
# The compiler of the gate's tests: it lints what it compiles. A library or a program is compiled twice, by itself and
# with its unit tests; it is linted only with them, because Clippy switches off optimisations that shorten compilation.
case " $* " in
*" --test "* | *"crates/tare-testkit/"*) ;; # tare-testkit has no unit tests
*"/src/lib.rs "* | *"/src/main.rs "*) exec "$@" -D warnings ;;
esac
exec "$CLIPPY_DRIVER" "$@"
