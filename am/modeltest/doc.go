// Package modeltest tests the whole aggregate against a plain model, through
// crashes and time.
//
//	world ── what outlives a process: the store's file, racks of machines, the clock
//	  └─ open ─> site ── store, index, policy, service, runner, API ── stop, die, kill ─> open …
//	                └─ alice, as ─> caller ── v2, v3, with signed credentials ─> answer
//
// It runs in bubbles of testing/synctest, so that back-off, leases and providers
// that hang cost nothing. Racks are providers whose every call can be told to go
// wrong; worlds are asked before each write of the store, and told after it.
package modeltest
