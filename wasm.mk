# The WebAssembly part of the build: see tools/build-plugins. Always run; cargo knows what changed.

.PHONY: plugins guests

# target/plugins/{echo,chat}.wasm
plugins:
	tools/build-plugins

# The same and the hostile plugins of the tests.
guests:
	tools/build-plugins --guests
