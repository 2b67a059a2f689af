package rspec

import (
	"context"
	"fmt"
)

// MaxWork limits the work of all compilations that share a Work. A step takes some 20 ns.
const MaxWork = 100_000_000

// Work bounds compilations of sources: it counts their steps, and ends them when there are more than
// MaxWork, or when its context ends. A step is, for example, a look at a component. A
// nil *Work has no limit. Its methods are not safe for concurrent use.
type Work struct {
	ctx   context.Context
	steps int
	err   error
}

// NewWork returns a Work that ends with ctx.
func NewWork(ctx context.Context) *Work { return &Work{ctx: ctx, err: ctx.Err()} }

// Spend counts steps before they are done. It returns false if they must not be done, because of Err.
func (w *Work) Spend(steps int) bool {
	if w == nil {
		return true
	}
	const interval = 1 << 14 // steps between two looks at the context
	if w.err == nil && w.steps/interval != (w.steps+steps)/interval {
		w.err = w.ctx.Err()
	}
	if w.steps += steps; w.err == nil && w.steps > MaxWork {
		w.err = NewRequestError([]Problem{{
			Kind: TooBig, Msg: fmt.Sprintf("the compilation takes more than %d steps", MaxWork),
			Remedy: "use fewer different systems, name their types and images, or divide them among several slices",
		}})
	}
	return w.err == nil
}

// Steps returns how many steps were counted.
func (w *Work) Steps() int { return w.steps }

// Err returns why the work had to end: the error of the context, or a *RequestError. It is nil as
// long as the work may go on.
func (w *Work) Err() error {
	if w == nil {
		return nil
	}
	return w.err
}
