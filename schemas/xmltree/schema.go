package xmltree

/*
#include "loader.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"patchbay/schemas"
)

// Schema is one of the embedded schemas. The first use compiles the schema; it is never
// freed. A Schema is safe for concurrent use.
type Schema struct {
	compile func() C.xmlSchemaPtr
	grammar func() *grammar // for messages
}

// schemaURL makes an absolute URL of a schema's file name. libxml2 needs absolute URLs to find
// the files that a file includes.
const schemaURL = "patchbay-schema:///"

// compiling guards the compiler of schemas.
var compiling sync.Mutex

// newSchema returns the Schema of a file, which it does not read yet. If the file is invalid, the
// first validation with the Schema panics.
func newSchema(file string) *Schema {
	compile := func() C.xmlSchemaPtr {
		initialize()
		compiling.Lock()
		defer compiling.Unlock()
		name := C.CString(schemaURL + file)
		defer C.free(unsafe.Pointer(name))
		s := C.xt_compile(name)
		if s == nil {
			panic(fmt.Sprintf("xmltree: the embedded schema %s cannot be compiled", file))
		}
		return s
	}
	read := func() *grammar {
		g, err := readGrammar(file)
		if err != nil {
			panic("xmltree: " + err.Error())
		}
		return g
	}
	return &Schema{sync.OnceValue(compile), sync.OnceValue(read)}
}

var core, known = schemasByKind(schemas.Core), schemasByKind(schemas.Known)

func schemasByKind(fileOf func(schemas.Kind) string) map[schemas.Kind]*Schema {
	all := make(map[schemas.Kind]*Schema)
	for _, k := range schemas.Kinds() {
		all[k] = newSchema(fileOf(k))
	}
	return all
}

// Core returns the schema for documents of kind k that ignores all extensions; nil for an
// unknown kind.
func Core(k schemas.Kind) *Schema { return core[k] }

// Known returns the schema for documents of kind k that also checks the extensions
// that it imports; nil for an unknown kind.
func Known(k schemas.Kind) *Schema { return known[k] }

// initialize prepares libxml2 for the whole process. Every entry point calls it first.
var initialize = sync.OnceFunc(func() {
	names := schemas.Names()
	C.xt_init(C.int(len(names)))
	for _, name := range names {
		text, err := schemas.Read(name)
		if err != nil {
			panic("xmltree: " + err.Error())
		}
		// C keeps both copies until the process ends.
		C.xt_serve(C.CString(schemaURL+name), (*C.char)(C.CBytes(text)), C.size_t(len(text)))
	}
})

// isLoadable reports whether the loader would load url for the parser of a document. Only
// tests call it, because tests cannot call C.
func isLoadable(url string) bool {
	initialize()
	s := C.CString(url)
	defer C.free(unsafe.Pointer(s))
	return C.xt_loads(s) != 0
}
