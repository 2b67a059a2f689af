// Package yamlfile reads the YAML files of operators strictly, and reports every
// mistake with its line. Load takes the text of a file, a Reader walks it.
//
//	file ── Load ──> text ── Reader.Document ──> *yaml.Node ── Fields, Items, Text … ──> what the caller makes of it
//	                           │
//	                           └── Wrong, Err ──> *Error ──< Problem: file, line, what is wrong, the remedy
//
// It is strict where YAML is not: a key that means nothing is a mistake, and the
// nearest one that does is told; so is a key that comes twice, a second document, and
// a value of another kind. All mistakes are told at once, by line; a value that is
// wrong reads as zero, so that the walk goes on.
//
// It exists so that all such files are read alike, with the same words for the
// same slip. What keys there are, what they mean, and how many entries are too many
// is known by whoever reads: it embeds a Reader and adds what only it understands.
// A walk goes only as deep as its caller does, so aliases of aliases do no harm.
package yamlfile
