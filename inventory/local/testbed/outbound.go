package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"patchbay/inventory/local/egress"
	"patchbay/inventory/local/hostalloc"
)

// outboundRecord is what the exit keeps over restarts.
type outboundRecord struct {
	Network uint32 `json:"network"`
}

const (
	outboundFolder = "outbound"
	outboundFile   = "outbound.json"
)

func (t *Testbed) outboundHolder() string { return t.settings.Instance + ":outbound" }

// openOutbound makes the way outside, or removes it where the settings say that
// there is none any more.
func (t *Testbed) openOutbound() error {
	var rec outboundRecord
	if err := readJSON(t.o.State, outboundFile, &rec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Warn("what was noted of the way outside is spoilt; it is made anew", "error", err)
	}
	if !t.settings.Outbound {
		return t.removeOutbound()
	}
	if rec.Network == 0 || t.uplinks.Hold(rec.Network, t.outboundHolder()) != nil {
		n, err := t.uplinks.Take(t.outboundHolder(), egress.Free)
		if errors.Is(err, hostalloc.ErrNone) {
			err = errors.New("198.19.0.0/16 and 100.127.0.0/16, of which it takes four addresses, are in use on this host")
		}
		if err != nil {
			return fmt.Errorf("no network for the way of nodes outside: %w; or set outbound: no", err)
		}
		rec.Network = n
		if err := t.write(t.o.State, outboundFile, rec); err != nil {
			return err
		}
	}
	e, err := egress.Open(egress.Options{
		Folder: filepath.Join(t.o.State, outboundFolder), Instance: t.settings.Instance, Number: rec.Network,
		Servers: t.settings.DNS, Block: t.settings.OutboundBlock, Appears: t.settings.OutboundAddresses, Log: t.log,
	})
	if err != nil {
		return fmt.Errorf("nodes cannot have a way outside: %w; patchbay-local doctor tells more, or set outbound: no", err)
	}
	t.exit = e
	kept := t.outside.all()
	return e.Sweep(func(number int) bool { return kept[number] })
}

// removeOutbound leaves nothing of the way outside.
func (t *Testbed) removeOutbound() error {
	folder := filepath.Join(t.o.State, outboundFolder)
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		if err := egress.Remove(folder, t.settings.Instance); err != nil {
			return fmt.Errorf("cannot remove the way of nodes outside: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(t.o.State, outboundFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	problems, err := t.uplinks.Sweep(t.settings.Instance, func(string, uint32) bool { return false })
	return errors.Join(append(problems, err)...)
}

func (t *Testbed) closeOutbound() error {
	if t.exit == nil {
		return nil
	}
	return t.exit.Close()
}

// nameServer is the name server of the nodes; empty: they have none.
func (t *Testbed) nameServer() string {
	if t.exit == nil {
		return ""
	}
	return egress.Gateway().String()
}

// goOutside gives a node that runs its way outside, once each time it runs.
func (l *life) goOutside(ctx context.Context, rec *record) error {
	if l.t.exit == nil || l.run.outside {
		return nil
	}
	number := l.t.outside.take(rec.Outside, l.id)
	if number == 0 {
		return errors.New("there is no address left for it")
	}
	if number != rec.Outside {
		if err := l.settle(func(r *record) { r.Outside = number }); err != nil {
			return err
		}
		rec.Outside = number
	}
	space, err := l.t.machines.Network(l.id)
	if err != nil {
		return err
	}
	defer space.Close()
	l.t.exit.Own(number, rec.Asked.SliceURN)
	err = l.t.exit.Attach(ctx, number, space)
	if errors.Is(err, egress.ErrOccupied) {
		l.t.log.Warn("a node has no way outside, for its root has put something else in its place", "node", l.id, "error", err)
		err = nil
	}
	if err == nil {
		l.run.outside = true
	}
	return err
}

// leaveOutside takes the node's way outside, and gives its number back.
func (l *life) leaveOutside(rec record) error {
	if rec.Outside == 0 || l.t.exit == nil {
		return nil
	}
	if l.t.outside.holder(rec.Outside) != l.id {
		return nil // it is another's by now
	}
	if err := l.t.exit.Detach(rec.Outside); err != nil {
		return err
	}
	l.t.outside.give(rec.Outside)
	return nil
}

// take gives a node the number, or if it is 0 or another's, one that is free; 0
// if there is none.
func (o *outsideNumbers) take(number int, id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.free(number, id) {
		for number = 1; o.held[number] != ""; number++ {
			if number == egress.Numbers {
				return 0
			}
		}
	}
	o.note(number, id)
	return number
}

// hold gives a node this number, unless it is another's or cannot be one.
func (o *outsideNumbers) hold(number int, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.free(number, id) {
		return false
	}
	o.note(number, id)
	return true
}

func (o *outsideNumbers) free(number int, id string) bool {
	return number >= 1 && number <= egress.Numbers && (o.held[number] == "" || o.held[number] == id)
}

func (o *outsideNumbers) note(number int, id string) {
	if o.held == nil {
		o.held = map[int]string{}
	}
	o.held[number] = id
}

func (o *outsideNumbers) give(number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.held, number)
}

func (o *outsideNumbers) holder(number int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held[number]
}

// all are the numbers that are held.
func (o *outsideNumbers) all() map[int]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[int]bool{}
	for n := range o.held {
		all[n] = true
	}
	return all
}
