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

// Schema is one of the embedded schemas. It is compiled at its first use, lives as long
// as the process, and is safe for concurrent use.
type Schema struct {
	compile func() C.xmlSchemaPtr
	grammar func() *grammar // for messages
}

// schemaURL makes a name of package schemas absolute, so that libxml2 can resolve the includes
// of a file.
const schemaURL = "patchbay-schema:///"

// compiling guards the compiler of schemas.
var compiling sync.Mutex

// newSchema returns a Schema for an embedded file. It panics at the first use if the file
// is invalid.
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

// schemasByKind returns a Schema for each kind; file returns the name of its file.
func schemasByKind(file func(schemas.Kind) string) map[schemas.Kind]*Schema {
	all := make(map[schemas.Kind]*Schema)
	for _, k := range schemas.Kinds() {
		all[k] = newSchema(file(k))
	}
	return all
}

// Core returns the schema for documents of kind k that ignores all extensions; nil for an
// unknown kind.
func Core(k schemas.Kind) *Schema { return core[k] }

// Known returns the schema for documents of kind k that also checks the extensions of
// schemas.Catalogue; nil for an unknown kind.
func Known(k schemas.Kind) *Schema { return known[k] }

// initialize prepares libxml2. Every entry point calls it, because the entity loader belongs
// to the whole process.
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

// isLoadable reports whether the loader returns url to the parser of a document. It is for
// tests, which cannot call C.
func isLoadable(url string) bool {
	initialize()
	s := C.CString(url)
	defer C.free(unsafe.Pointer(s))
	return C.xt_loads(s) != 0
}
