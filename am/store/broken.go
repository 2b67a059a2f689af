package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// ErrBroken is wrapped by errors about damage in the store's file. After such an error, Commit
// refuses all changes until the store is opened again. Err returns the reason.
var ErrBroken = errors.New("the store is damaged")

type brokenError struct{ error }

func (s brokenError) Unwrap() error { return s.error }

func (s brokenError) Is(target error) bool { return target == ErrBroken }

// failure is the reason why a store accepts no more changes. Only the first reason is kept.
type failure struct {
	why    atomic.Pointer[error]
	notify func(error) // Options.Broken
}

// err returns nil while changes are accepted.
func (t *failure) err() error {
	if why := t.why.Load(); why != nil {
		return *why
	}
	return nil
}

// set records the reason and calls notify. It does nothing if a reason was recorded before.
func (t *failure) set(reason error) {
	if t.why.CompareAndSwap(nil, &reason) && t.notify != nil {
		t.notify(reason)
	}
}

// note returns err. If err means that the store is damaged, note also records it as the reason.
func (t *failure) note(err error) error {
	if errors.Is(err, ErrBroken) {
		t.set(err)
	}
	return err
}

// Err returns nil while the store accepts changes. Otherwise it returns the reason: damage, or a
// write whose durability is unknown. The store accepts changes again only after it is opened again.
func (s *Store) Err() error { return s.failure.err() }

// CheckPlace fails if the store's path no longer names the file that the store has open. The
// store would refuse the next change.
func (s *Store) CheckPlace() error {
	if err := checkName(s.db.path, s.db.file); err != nil {
		return fmt.Errorf("the store's file is not at its place: %w; put it back, or make a backup with patchbay backup before you stop the server", err)
	}
	return nil
}

func unreadableRecord(k Key, err error) error {
	if errors.Is(err, ErrBroken) {
		return fmt.Errorf("%s %s: %w; stop the server, and restore a backup", k.Kind, k.ID, err)
	}
	return fmt.Errorf("%s %s: %w", k.Kind, k.ID, err)
}

// damage returns the error for p, the value of a panic that only a damaged file can cause.
func damage(p any) error {
	if b, ok := p.(damagePanic); ok {
		return b.error
	}
	return brokenError{fmt.Errorf("the file is damaged (%v); stop the server, and restore a backup", p)}
}

// recoverPanic converts a panic of f to an error, so that a bug in f does not end the committer.
// name describes f in the error.
func recoverPanic(name string, f func() error) (err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case faultOf(p) != nil:
			err = fmt.Errorf("%w: %w", ErrNotCommitted, faultOf(p))
		default:
			err = fmt.Errorf("%s panicked: %v\n%s", name, p, debug.Stack())
		}
	}()
	return f()
}

// faultOf returns the error for the value of a panic that comes from reading a damaged or missing
// page, and nil for another panic.
func faultOf(p any) error {
	switch p.(type) {
	case damagePanic, interface{ Addr() uintptr }:
		return damage(p)
	}
	return nil
}
