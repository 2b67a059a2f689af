package testbed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/fabric"
)

// doubleNetwork is a simulated network: its links, and the run of its node in which each end
// was attached.
type doubleNetwork struct {
	links   map[string]fabric.Link
	plugged map[string]int
}

type doubleFabric struct{ *process }

func (f doubleFabric) CheckLink(l fabric.Link) error {
	for _, s := range l.Shapes {
		if s.Delay == 0 {
			continue
		}
		f.w.mu.Lock()
		no := f.w.fails["latency"]
		f.w.mu.Unlock()
		if no != nil {
			return &fabric.UnsupportedError{Property: "latency", Reason: no.Error()}
		}
	}
	return nil
}

func (f doubleFabric) SetLink(ctx context.Context, l fabric.Link) (string, error) {
	if err := f.w.waitWhileSlow("set link "+l.Slice, ctx.Done()); err != nil {
		return "", err
	}
	if err := f.CheckLink(l); err != nil {
		return "", err
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.operationLocked("set link"); err != nil {
		return "", err
	}
	n := f.w.fabric[l.Slice]
	if n == nil {
		n = &doubleNetwork{map[string]fabric.Link{}, map[string]int{}}
		f.w.fabric[l.Slice] = n
	}
	n.links[l.Name] = l
	emulator := "bridge"
	if len(l.Shapes) > 0 {
		emulator = "vswitch"
	}
	return emulator, nil
}

// AttachEnd identifies the node by its open disk instead of a network namespace.
func (f doubleFabric) AttachEnd(ctx context.Context, slice, link, end string, space fabric.Namespace) error {
	if err := f.w.waitWhileSlow("attach end "+slice, ctx.Done()); err != nil {
		return err
	}
	return f.doLocked("attach end", func() error {
		node := filepath.Base(filepath.Dir(space.Name()))
		s, n := f.w.running[node], f.w.fabric[slice]
		if s == nil {
			return errors.New("it does not run")
		}
		if n == nil || !slices.ContainsFunc(n.links[link].Ends, func(e fabric.End) bool { return e.ID == end }) {
			return fmt.Errorf("there is no end %s", end)
		}
		if !strings.HasPrefix(end, node+"/eth") {
			f.w.wrong = append(f.w.wrong, end+" was plugged into "+node)
		}
		n.plugged[end] = s.pid
		return nil
	})
}

func (f doubleFabric) RemoveLinks(_ context.Context, slice string, links ...string) error {
	return f.doLocked("remove link", func() error {
		if n := f.w.fabric[slice]; n != nil {
			for _, link := range links {
				delete(n.links, link)
			}
		}
		return nil
	})
}

func (f doubleFabric) Links(_ context.Context, slice string) ([]string, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.operationLocked("links"); err != nil || f.w.fabric[slice] == nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(f.w.fabric[slice].links)), nil
}

func (f doubleFabric) RemoveNetwork(ctx context.Context, slice string) error {
	if err := f.w.waitWhileSlow("remove network "+slice, ctx.Done()); err != nil {
		return err
	}
	return f.doLocked("remove network", func() error {
		if n := f.w.fabric[slice]; n != nil {
			for end, pid := range n.plugged {
				node, _, _ := strings.Cut(end, "/")
				if s := f.w.running[node]; s != nil && s.pid == pid {
					f.w.wrong = append(f.w.wrong, "the network of "+node+" was removed while it ran")
				}
			}
		}
		delete(f.w.fabric, slice)
		return nil
	})
}

func (f doubleFabric) Slices() ([]string, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return slices.Sorted(maps.Keys(f.w.fabric)), f.operationLocked("slices")
}

func (f doubleFabric) Counters(ctx context.Context, slice string) (map[string]fabric.Counters, error) {
	if err := f.w.waitWhileSlow("counters "+slice, ctx.Done()); err != nil {
		return nil, err
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	all := map[string]fabric.Counters{}
	f.w.done["counters"]++
	if n := f.w.fabric[slice]; n != nil {
		for end := range n.plugged {
			all[end] = fabric.Counters{RxPackets: uint64(f.w.done["counters"]), RxBytes: 2, TxPackets: 3, TxBytes: 4, Dropped: 5, Overruns: f.w.overruns}
		}
	}
	return all, nil
}

func (f doubleFabric) Close() error { return nil }

func (m *doubleRuntime) Network(id string) (*os.File, error) {
	if err := m.operation("network"); err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(m.path(id), "disk.img"))
}

// hasLinksLocked reports whether a running node has all its interfaces.
func (h *fakeHost) hasLinksLocked(s *fakeSystem) bool {
	for _, n := range h.fabric {
		for _, l := range n.links {
			for _, e := range l.Ends {
				if strings.HasPrefix(e.ID, s.spec.ID+"/") && n.plugged[e.ID] != s.pid {
					return false
				}
			}
		}
	}
	return true
}

// attachedEnds returns the ends of a link that are attached to running nodes.
func (h *fakeHost) attachedEnds(slice, link string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	if n := h.fabric[sliceID(slice)]; n != nil {
		for _, e := range n.links[linkID(link)].Ends {
			node, _, _ := strings.Cut(e.ID, "/")
			if s := h.running[node]; s != nil && n.plugged[e.ID] == s.pid {
				all = append(all, e.ID)
			}
		}
	}
	return all
}

// interfaceItem returns an item of the attribute interfaces; more are further keys.
func interfaceItem(client, link, address, more string) string {
	item := fmt.Sprintf(`{"client_id":%q,"link":%q,"slice":%q`, client, link, sliceURN)
	if address != "" {
		item += fmt.Sprintf(`,"addresses":[%q]`, address)
	}
	return item + more + "}"
}

// newLinkedNode is newNode with interfaces.
func newLinkedNode(hostname string, items ...string) provider.Resource {
	r := newNode(hostname, sliceURN, "alice")
	r["interfaces"] = items
	return r
}
