// Package yamlfile reads the YAML files of operators strictly, and reports every
// mistake with its line. Load reads the text of a file, and a Reader walks through it.
//
//	file ── Load ──> text ── Reader.Document ──> *yaml.Node ── Keys, Items, Text … ──> the caller's values
//	                           │
//	                           └── Wrong, Err ──> *Error ──< Problem: file, line, what is wrong, the remedy
//
// The package is stricter than YAML. Mistakes are unknown keys, duplicate keys, a second
// document, and values of the wrong type. The message for an unknown key suggests the most
// similar known key. All mistakes are reported together, in the order of lines. Reading
// continues after a wrong value, which is read as zero.
//
// The YAML files of operators use this package, so the same mistake has the same message
// everywhere. Other readers are lenient where strictness would refuse what is accepted:
//
//   - patchbay.yaml: its keys and defaults come from the fields of a struct, package am/site;
//   - metadata of providers, answers to describe, and files of facts: programs of other versions
//     write them, and unknown keys are ignored by contract;
//   - files of which one key or line is needed, and whose mistakes their own reader reports;
//   - playbooks in RADL: Ansible defines their keys.
//
// Blueprints are read by this package, but their sections decide which keys are known.
//
// The caller embeds a Reader, defines the keys and their meaning, limits the
// number of entries, and adds types of values. A Reader visits only the nodes that the
// caller asks for, so recursive aliases do no harm.
package yamlfile
