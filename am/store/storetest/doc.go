// Package storetest is what every engine behind the door of package store must
// do, and an engine in memory that can be told to misbehave.
//
// Run holds an engine against the rules that store.Engine tells: order, prefixes,
// isolation, all or nothing, what lasts. An engine that passes can stand behind
// the store. The rules return errors rather than fail a test, so that engines
// that each break one rule can show that each rule is looked after.
//
//	func TestMine(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Place { return newPlace(t.TempDir()) })
//	}
//
// Memory passes, too. Tests of others open a store over it, have writes fail or
// last although they were said to fail, and see what is there after a crash.
package storetest
