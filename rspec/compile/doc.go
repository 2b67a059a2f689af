// Package compile compiles RADL and blueprints to request RSpecs.
//
// Language finds the language of a text from its content. Compile returns the request, the source
// without secrets, and all mistakes and warnings with their places in the source.
package compile
