package gateway

import (
	"context"
	"errors"
	"os"
	"sync"
)

var errNoKeeper = errors.New("the testbed is not running")

// asks are the connections that the Keeper was asked for. The zero value is ready.
type asks struct {
	mu     sync.Mutex
	slots  chan struct{} // made with the first ask
	number uint64
	open   map[uint64]chan given
	over   bool
}

type given struct {
	file *os.File
	err  error
}

// ask asks over s and waits for the answer; at most maxAsks wait at a time.
func (a *asks) ask(ctx context.Context, s *sender, kind, node string) (*os.File, error) {
	a.mu.Lock()
	if a.slots == nil {
		a.slots = make(chan struct{}, maxAsks)
		a.open = make(map[uint64]chan given)
	}
	slots := a.slots
	a.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		<-slots
		return nil, errNoKeeper
	}
	a.number++
	number := a.number
	answer := make(chan given, 1)
	a.open[number] = answer
	a.mu.Unlock()
	if err := s.send(word{Number: number, Kind: kind, Node: node}); err != nil {
		a.given(order{Number: number, Error: errNoKeeper.Error()}, nil)
	}
	select {
	case r := <-answer:
		return r.file, r.err
	case <-ctx.Done():
		// The slot stays taken until the Keeper answers: it counts them, too.
		go func() {
			if r := <-answer; r.file != nil {
				r.file.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// given passes on what came.
func (a *asks) given(o order, files []*os.File) {
	a.mu.Lock()
	answer := a.open[o.Number]
	delete(a.open, o.Number)
	a.mu.Unlock()
	if answer == nil {
		closeFiles(files)
		return
	}
	<-a.slots
	if o.Error == "" && len(files) == 1 {
		answer <- given{file: files[0]}
		return
	}
	closeFiles(files)
	answer <- given{err: errors.New(o.Error)}
}

// end answers all that is open: nothing will come any more.
func (a *asks) end() {
	a.mu.Lock()
	a.over = true
	var numbers []uint64
	for number := range a.open {
		numbers = append(numbers, number)
	}
	a.mu.Unlock()
	for _, number := range numbers {
		a.given(order{Number: number, Error: errNoKeeper.Error()}, nil)
	}
}
