// Package yamlfile reads the YAML files of operators strictly, and reports every
// mistake with its line. Load reads the text of a file, and a Reader walks through it.
//
//	file ── Load ──> text ── Reader.Document ──> *yaml.Node ── Fields, Items, Text … ──> the caller's values
//	                           │
//	                           └── Wrong, Err ──> *Error ──< Problem: file, line, what is wrong, the remedy
//
// It is stricter than YAML. Mistakes are unknown keys, for which it suggests the most
// similar known one, duplicate keys, a second document, and values of another type.
// All mistakes are reported together, by line. A wrong value reads as zero, so that
// reading can continue.
//
// All such files share this package, and so the same messages for the same mistakes.
// The caller defines the keys, their meaning and the number of entries: it embeds a
// Reader and adds its own types. A walk goes only as deep as its caller does, so
// recursive aliases do no harm.
package yamlfile
