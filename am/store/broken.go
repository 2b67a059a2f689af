package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// ErrBroken is wrapped by the errors of a store that has met damage. From then on
// Commit refuses, until the store is opened again; Err tells why.
var ErrBroken = errors.New("the store is damaged")

// spoiled is an error that wraps ErrBroken, in its own words.
type spoiled struct{ error }

func (s spoiled) Unwrap() error { return s.error }

func (s spoiled) Is(target error) bool { return target == ErrBroken }

// trouble is why a store promises nothing more; the first reason stays.
type trouble struct {
	why  atomic.Pointer[error]
	told func(error) // nil for nobody
}

func (t *trouble) err() error {
	if why := t.why.Load(); why != nil {
		return *why
	}
	return nil
}

func (t *trouble) set(why error) {
	if t.why.CompareAndSwap(nil, &why) && t.told != nil {
		t.told(why)
	}
}

// meet takes note of an error that tells of damage, and hands it on.
func (t *trouble) meet(err error) error {
	if errors.Is(err, ErrBroken) {
		t.set(err)
	}
	return err
}

// Err is why the store promises nothing more until it is opened again: damage it
// has met, or a write of which nobody knows whether it has lasted. It is nil while
// all is well.
func (s *Store) Err() error { return s.trouble.err() }

// unreadableRecord names the record that cannot be read.
func unreadableRecord(k Key, err error) error {
	if errors.Is(err, ErrBroken) {
		return fmt.Errorf("%s %s: %w; stop the server, and restore a backup", k.Kind, k.ID, err)
	}
	return fmt.Errorf("%s %s: %w", k.Kind, k.ID, err)
}

// damage is the error for what went wrong where nothing can but by damage.
func damage(p any) error {
	if b, ok := p.(broken); ok {
		return b.error
	}
	return spoiled{fmt.Errorf("the file is damaged (%v); stop the server, and restore a backup", p)}
}

// guarded calls f, which calls what, a function of others. A panic of that is its error:
// one caller's bug must not end the committer of all.
func guarded(what string, f func() error) (err error) {
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

// damagedMemory tells whether a panic is that of a page that is damaged or no more.
func damagedMemory(p any) bool {
	switch p.(type) {
	case broken, interface{ Addr() uintptr }:
		return true
	}
	return false
}
