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
	return e.Sweep(func(number int) bool { return t.outsideOf(number) != nil })
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
	number := l.t.takeOutside(rec.Outside, l)
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
	if l.t.exit == nil || l.t.outsideOf(rec.Outside) != l {
		return nil
	}
	if err := l.t.exit.Detach(rec.Outside); err != nil {
		return err
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	delete(l.t.outside, rec.Outside)
	return nil
}

// outsideOf is the node that has the number, nil when none has.
func (t *Testbed) outsideOf(number int) *life {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outside[number]
}

// takeOutside gives a node the number, or a free one if it is another's or none; 0
// when no number is free.
func (t *Testbed) takeOutside(number int, l *life) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if holder := t.outside[number]; number < 1 || number > egress.Numbers || holder != nil && holder != l {
		for number = 1; t.outside[number] != nil; number++ {
			if number == egress.Numbers {
				return 0
			}
		}
	}
	t.outside[number] = l
	return number
}
