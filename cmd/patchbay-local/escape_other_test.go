//go:build !amd64

package main

// callAttemptsHere are attempts with calls of this architecture alone.
func callAttemptsHere(func(uintptr, ...uintptr) func() string) []attempt { return nil }
