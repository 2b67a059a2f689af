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
// All YAML files of operators are read with this package, so that the same mistake always
// gets the same message.
// The caller defines the keys, their meaning and the number of entries: it embeds a
// Reader and adds its own types. The
// caller's code alone decides how deep a walk goes, so an alias that contains itself
// cannot make it endless.
package yamlfile
