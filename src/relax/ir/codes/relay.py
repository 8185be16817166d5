"""Codes of Relay: E900x parsing, E901x operators, E902x well-formedness."""

from __future__ import annotations

from .code import declare

declare(
    "E9001",
    "text that is not made of Relay's tokens",
    "A character begins no token, a string does not end on its line, or a block comment does not end at all.",
    "Remove the character, or close the string with a quotation mark and the comment with `*/`.",
)
declare(
    "E9002",
    "text that does not follow Relay's grammar",
    "Something else was expected at this place, or a bracket has no partner. The rest of the statement is "
    "skipped, and reading goes on behind its semicolon.",
    "The message says what was expected. docs/relay.md has examples, and names the files with the grammar.",
)
declare(
    "E9003",
    "a name that Relay does not have here",
    "No variable, graph binding, global function, type, constructor, kind or module of this name is in scope.",
    "Correct the spelling, or define the name. A graph binding is defined above its uses; the variable of a `let` "
    "is in scope in its value only if that is a function.",
)
declare(
    "E9004",
    "a name that is defined twice",
    "Global functions, types, constructors, the parameters of one function, the variables of one pattern and the "
    "attributes of one call have different names.",
    "Rename one of the two.",
)
declare(
    "E9005",
    "a literal or a dimension that has no value",
    "The dtype does not exist, or the number is out of its range.",
    "Write a number that the dtype holds, or another suffix: `300` is an int32, `300i64` an int64, `1f` a float32.",
)
declare(
    "E9006",
    "text that nests too deeply",
    "Brackets stand within brackets more than 10,000 times, or types or patterns more than 500 times.",
    "Give parts a name: `%1 = …;` or `let %x = …;`.",
)
declare(
    "E9007",
    "metadata that is missing or of the wrong kind",
    "`meta[kind][index]` refers to the section `#[metadata]` at the end of a text, which `astext()` writes. The entry "
    "is not there, is not of the kind that this place needs, or the section cannot be read.",
    "Print the program with `astext()`, not with `show()`, which leaves the section out.",
)
declare(
    "E9008",
    "a version of the text that is not supported",
    'The text begins with another version than `#[version = "0.0.5"]`.',
    "Print the program again, or correct the version.",
)
declare(
    "E9010",
    "an operator that Relay does not have",
    "A name without a sigil is an operator or a constructor, and this is neither.",
    "Take one of the names the hint suggests; `relay.list_operators()` has all. A variable is `%x`, a function `@f`.",
)
declare(
    "E9011",
    "attributes that do not fit their operator",
    "An attribute is not the operator's, is missing, or has a value of another type; or the callee is no operator, "
    "and has no attributes.",
    "The message says what is expected, and the hint which attributes there are.",
)
declare(
    "E9012",
    "another number of operands than the operator takes",
    "The operator is called with too many or too few operands.",
    "Give as many as the message says. An operator on several tensors takes one tuple: `concatenate((%a, %b))`.",
)
declare(
    "E9020",
    "a Relay variable that is bound in two places",
    "Variables are objects: each parameter, `let` and pattern binds a `Var` of its own, whatever its name.",
    "Make another `Var`, which may have the same name.",
)
declare(
    "E9021",
    "a Relay variable outside of its scope",
    "A parameter is in scope in its function, the variable of a `let` in its body, that of a pattern in its clause. A "
    "node that stands in several scopes is evaluated in the innermost that holds all of them, where its variables must "
    "be in scope.",
    "Use the variable inside of the scope that binds it, or make a node of its own for each scope.",
)
declare(
    "E9022",
    "a temporary expression that was left behind",
    "A pass may put a `TempExpr` into a program for its own use. It has no meaning outside of the pass.",
    "Replace it by what it stands for, `realize()`, before the pass ends.",
)
declare(
    "E9013",
    "operands or attributes that an operator cannot take",
    "An operator of Relay means an expression of Relax; with these operands or attributes there is none.",
    "The message says what does not fit. Types of operands are found by Relax's own rules (E31xx).",
)
declare(
    "E9030",
    "a value that no clause of a match takes",
    "A match that need not cover its type, `match?`, met a value that none of its clauses takes.",
    "Add a clause, or `_ => …` at the end.",
)
declare(
    "E9031",
    "a call of what is no function, when the program runs",
    "A value that is called is a tensor, a tuple or a reference, or takes another number of arguments.",
    "Type inference finds this before the program runs: `relay.infer_type`, `relay.transform.InferType()`.",
)
declare(
    "E9040",
    "types of Relay that differ",
    "What stands here has another type than its place asks for: the condition of an `if`, one of its branches, an "
    "argument, the value of a `let` with a type, the body of a function with a result type.",
    "The message shows both types, and the parts of them that differ.",
)
declare(
    "E9041",
    "a type that cannot be inferred",
    "Nothing in the program determines the type of a variable or an expression.",
    "Annotate the parameters that it depends on: `fn(%x: (int32, int32)) { %x.0 }`.",
)
declare(
    "E9042",
    "a field that is not there",
    "A projection, `%t.2`, takes a field of what is no tuple, or has fewer fields.",
    "Fields are numbered from 0.",
)
declare(
    "E9043",
    "a call that does not fit what is called",
    "What is called is no function, or takes another number of arguments or type arguments.",
    "Call it with what its type says: `relay.infer_type(f).checked_type`.",
)
declare(
    "E9044",
    "a match that leaves out values of its type",
    "A `match` covers every value of its type; one that need not is written `match?`.",
    "Add a clause for each case of the message, or `_ => …`, or write `match?`, which fails at run time.",
)
declare(
    "W9045",
    "a clause that no value reaches",
    "The clauses before it take all values that it would take.",
    "Remove the clause, or put it before the one that takes its values.",
)
declare(
    "E9046",
    "a type of another kind than its place asks for",
    "`relay.analysis.check_kind` finds a shape where a type must stand, a name of a type without its arguments, or the "
    "like.",
    "Give a type parameter the kind of its place: `a: Type`, `s: Shape`, `t: BaseType`.",
)
declare(
    "E9050",
    "a part of Relay that has no translation to Relax",
    "A function that is called from outside is polymorphic, a function calls itself at ever other types, or a "
    "parameter is a polymorphic function: its instances cannot be listed.",
    'Annotate the parameters, or evaluate the program: `relay.create_executor("debug")`.',
)
declare(
    "E9070",
    "a layout that an operator of Relay cannot be given",
    "`ConvertLayout` and `AlterOpLayout` give convolutions layouts that are orders of the same axes.",
    'Name a convolution and an order of its axes: `ConvertLayout({"nn.conv2d": ["NHWC", "default"]})`.',
)
declare(
    "E9071",
    "a program that a rewrite of Relay's functions cannot take",
    "The program uses a feature that the rewrite has no translation for; the message says which.",
    "Leave the rewrite out, or write that part of the program without the feature.",
)
declare(
    "E9060",
    "a part of Relay without a gradient",
    "`relay.transform.gradient` differentiates functions of tensors. An operator needs a gradient where the result "
    "depends on it; data types hold tensors by type parameters; `first_order` is for graphs only.",
    "Give the operator a gradient (`relay.register_gradient`), write the part in other terms, or use the other mode.",
)
