# llvmlite carries no types. Everything in it is Any here, so that strict mode is about our code.
