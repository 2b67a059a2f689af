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

// Schema is one of the embedded schemas. It is compiled when it is first
// needed, lives as long as the process, and may be used by many goroutines.
type Schema struct {
	compile func() C.xmlSchemaPtr
	grammar func() *grammar // for messages
}

// base makes a name of package schemas absolute, so that libxml2 can resolve
// what the files include.
const base = "patchbay-schema:///"

// compiling lets one schema be compiled at a time.
var compiling sync.Mutex

func newSchema(file string) *Schema {
	compile := func() C.xmlSchemaPtr {
		start()
		compiling.Lock()
		defer compiling.Unlock()
		name := C.CString(base + file)
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

var core, known = ofKinds(schemas.Core), ofKinds(schemas.Known)

func ofKinds(file func(schemas.Kind) string) map[schemas.Kind]*Schema {
	all := make(map[schemas.Kind]*Schema)
	for _, k := range schemas.Kinds() {
		all[k] = newSchema(file(k))
	}
	return all
}

// Core is the schema of documents of kind k that leaves all extensions alone;
// nil for an unknown kind.
func Core(k schemas.Kind) *Schema { return core[k] }

// Known is the schema of documents of kind k that judges the extensions of
// schemas.Catalogue, too; nil for an unknown kind.
func Known(k schemas.Kind) *Schema { return known[k] }

// start prepares libxml2; it is called by every way into it, for the entity
// loader is the process's.
var start = sync.OnceFunc(func() {
	names := schemas.Names()
	C.xt_init(C.int(len(names)))
	for _, name := range names {
		text, err := schemas.Read(name)
		if err != nil {
			panic("xmltree: " + err.Error())
		}
		// Both copies are kept for ever.
		C.xt_serve(C.CString(base+name), (*C.char)(C.CBytes(text)), C.size_t(len(text)))
	}
})

// loads tells whether the loader serves url to the parser of a document. It is
// for tests, which cannot call C.
func loads(url string) bool {
	start()
	s := C.CString(url)
	defer C.free(unsafe.Pointer(s))
	return C.xt_loads(s) != 0
}
