package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/maintenance"
	"patchbay/inventory"
)

// UpkeepState is what a site heeds of its maintenance file, and whom it meets.
type UpkeepState struct {
	Fingerprint string // of the file that is in force
	Lockdown    string // what experimenters are told; "" for none
	Wrong       string // what is wrong with the file now; "" for nothing
	Slices      int    // that have slivers which are more than reserved
	Slivers     int    // of those
	Reserved    int    // slivers that are not provisioned, and lapse
	Reaches     []Reach
}

// Reach says that a slice has slivers on what is to be maintained, for longer
// than until its beginning.
type Reach struct {
	Planned int // the window's place in the file, from 0
	Slice   string
	Slivers int
	Until   time.Time // the last lease; zero for slivers that are frozen
}

// maxReaches bounds the answer; nobody reads more.
const maxReaches = 1000

// stateOf looks at all slivers that live.
func stateOf(p *maintenance.Plan, inv *inventory.Inventory, slivers []am.Sliver, now time.Time) UpkeepState {
	s := UpkeepState{Fingerprint: p.Fingerprint}
	if p.Lockdown != nil {
		s.Lockdown = p.Lockdown.Text
	}
	places := map[*maintenance.Window]int{}
	for i, w := range p.Planned {
		places[w] = i
	}
	type key struct {
		planned int
		slice   string
	}
	reaches, having := map[key]Reach{}, map[string]bool{}
	for _, x := range slivers {
		if !x.Live(now) {
			continue
		}
		if x.Status.Allocation == am.Allocated {
			s.Reserved++
		} else {
			s.Slivers++
			having[x.Slice.Key()] = true
		}
		c, ok := inv.Home(&x)
		if !ok {
			continue
		}
		for _, w := range p.Of(c.Name) {
			if !w.Until.After(now) || !x.Frozen && !x.Expires.After(w.From) {
				continue
			}
			k := key{places[w], x.Slice.String()}
			r := reaches[k]
			r.Planned, r.Slice, r.Slivers = k.planned, k.slice, r.Slivers+1
			if !x.Frozen && x.Expires.After(r.Until) {
				r.Until = x.Expires
			}
			reaches[k] = r
		}
	}
	for _, r := range reaches {
		s.Reaches = append(s.Reaches, r)
	}
	slices.SortFunc(s.Reaches, func(a, b Reach) int {
		return cmp.Or(cmp.Compare(a.Planned, b.Planned), cmp.Compare(a.Slice, b.Slice))
	})
	s.Slices, s.Reaches = len(having), s.Reaches[:min(len(s.Reaches), maxReaches)]
	return s
}

// askUpkeep asks a served site for its state, after it has read the file.
func askUpkeep(ctx context.Context, c *Config) (s UpkeepState, err error) {
	err = Ask(ctx, c, "/maintenance", &s)
	return s, err
}

// UpkeepOf gives the state of a site, and whether it is served. The plan is what
// its file says.
func UpkeepOf(ctx context.Context, c *Config, p *maintenance.Plan) (s UpkeepState, served bool, err error) {
	if s, err = askUpkeep(ctx, c); !errors.Is(err, ErrNotServed) {
		return s, true, err
	}
	inv, err := inventory.Load(c.Inventory, c.Authority)
	if err != nil {
		return s, false, err
	}
	var slivers []am.Sliver
	now := c.Now(ctx)
	has, err := c.HasState()
	if err != nil {
		return s, false, err
	}
	if has {
		st, err := c.LookAtState()
		if err != nil {
			return s, false, fmt.Errorf("%w; if so, it has no %s to be asked, and reads the file within a second", err, SocketName)
		}
		now = st.Now()
		slivers, err = st.Slivers()
		if err := errors.Join(err, st.Close()); err != nil {
			return s, false, err
		}
	}
	return stateOf(p, inv, slivers, now), false, nil
}

// Counts makes sure that what was written into the file is what a served site
// heeds.
func (s *UpkeepState) Counts(p *maintenance.Plan, c *Config) error {
	switch {
	case s.Fingerprint == p.Fingerprint:
		return nil
	case changedSince(p, c):
		return nil // by another operator, and over what p says; who wrote last is answered
	case s.Wrong != "":
		return fmt.Errorf("the served site cannot read what was written: %s", s.Wrong)
	}
	return fmt.Errorf("the served site does not read %s; it was started with another configuration, so start it again", c.Maintenance)
}

// changedSince tells whether the maintenance file is another than p by now.
func changedSince(p *maintenance.Plan, c *Config) bool {
	now, err := maintenance.Read(c.Maintenance)
	return err == nil && now.Fingerprint != p.Fingerprint
}

func (r Reach) String() string {
	if r.Until.IsZero() {
		return fmt.Sprintf("%s: %s, shut down and kept", r.Slice, display.Count(r.Slivers, "sliver"))
	}
	return fmt.Sprintf("%s: %s, until %s", r.Slice, display.Count(r.Slivers, "sliver"), r.Until.UTC().Format(time.RFC3339))
}
