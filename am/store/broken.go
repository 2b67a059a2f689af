package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// ErrBroken is wrapped by the errors of a store that has found damage. From then on
// Commit refuses all changes until the store is opened again; Err returns the reason.
var ErrBroken = errors.New("the store is damaged")

// brokenError is an error that wraps ErrBroken with its own text.
type brokenError struct{ error }

func (s brokenError) Unwrap() error { return s.error }

func (s brokenError) Is(target error) bool { return target == ErrBroken }

// failure is the reason why a store accepts no more changes. The first reason stays.
type failure struct {
	why    atomic.Pointer[error]
	notify func(error) // Options.Broken
}

// err returns the reason, or nil while changes are accepted.
func (t *failure) err() error {
	if why := t.why.Load(); why != nil {
		return *why
	}
	return nil
}

// set records why as the reason, and notifies, unless there is a reason already.
func (t *failure) set(why error) {
	if t.why.CompareAndSwap(nil, &why) && t.notify != nil {
		t.notify(why)
	}
}

// note records err if it means that the store is damaged, and returns it.
func (t *failure) note(err error) error {
	if errors.Is(err, ErrBroken) {
		t.set(err)
	}
	return err
}

// Err returns why the store accepts no more changes until it is opened again: damage,
// or a write whose durability is unknown. It returns nil for a healthy store.
func (s *Store) Err() error { return s.failure.err() }

// CheckPlace fails while the store's path does not name its open file: the next change
// would be refused.
func (s *Store) CheckPlace() error {
	if err := checkName(s.db.path, s.db.file); err != nil {
		return fmt.Errorf("the store's file is not at its place: %w; put it back, or make a backup with patchbay backup before you stop the server", err)
	}
	return nil
}

// unreadableRecord returns the error for a record that cannot be read.
func unreadableRecord(k Key, err error) error {
	if errors.Is(err, ErrBroken) {
		return fmt.Errorf("%s %s: %w; stop the server, and restore a backup", k.Kind, k.ID, err)
	}
	return fmt.Errorf("%s %s: %w", k.Kind, k.ID, err)
}

// damage converts a panic that only damage can cause to an error.
func damage(p any) error {
	if b, ok := p.(broken); ok {
		return b.error
	}
	return brokenError{fmt.Errorf("the file is damaged (%v); stop the server, and restore a backup", p)}
}

// recoverPanic calls f, a function of another package, and returns its panic as an error, so
// that a caller's bug does not end the committer. what is the name of f in the error.
func recoverPanic(what string, f func() error) (err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case damagedMemory(p):
			err = fmt.Errorf("%w: %w", ErrNotCommitted, damage(p))
		default:
			err = fmt.Errorf("%s panicked: %v\n%s", what, p, debug.Stack())
		}
	}()
	return f()
}

// damagedMemory reports whether a panic comes from reading a damaged or missing page.
func damagedMemory(p any) bool {
	switch p.(type) {
	case broken, interface{ Addr() uintptr }:
		return true
	}
	return false
}
