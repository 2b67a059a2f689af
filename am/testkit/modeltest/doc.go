// Package modeltest tests the whole aggregate against a plain model, through
// crashes and time.
//
//	environment ── what outlives a process: the store's file, providers with machines, the clock
//	  └─ open ─> site ── store, index, policy, service, runner, API ── stop, die, kill ─> open …
//	                └─ alice, as ─> caller ── v2, v3, with signed credentials ─> answer
//
// It runs in bubbles of testing/synctest, so that back-off, leases and providers that
// hang take no real time. Each call of a fakeProvider can fail in a chosen way. An
// environment can make each write of the store fail, and is notified after each write.
package modeltest
