package maintenance

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Plan is a parsed maintenance file. A nil Plan is empty. All methods may be called
// concurrently.
type Plan struct {
	// Lockdown is the lockdown of the site; nil if there is none.
	Lockdown *Lockdown
	// Planned are the windows in the order of the file.
	Planned []*Window
	// Drained are the drains, in the order of the file.
	Drained []*Drain
	// Fingerprint is the SHA-256 of the file in hexadecimal; "" if there is no file.
	Fingerprint string

	whole   []*Window            // windows of the whole site
	named   map[string][]*Window // other windows, by component
	drained map[string]*Drain    // by component
	moments []time.Time          // beginnings and ends of windows, ascending
}

// Lockdown means that an operator has stopped all new work.
type Lockdown struct {
	// Text is one line for experimenters.
	Text string
	// Since is the time when the lockdown began; zero if the file does not contain it.
	Since time.Time
}

// Window is a planned maintenance. It begins at the time From and has ended at Until.
type Window struct {
	// Components are names, and ranges such as pc1..pc4, as they are written. If there
	// are none, the window applies to the whole site.
	Components []string
	// From and Until are whole seconds in UTC.
	From, Until time.Time
	// Text is one line for experimenters.
	Text string
	// Line is the window's line in the file.
	Line int

	names []string // the single names of Components
}

// Where returns the components in the notation of the maintenance file, or "the whole site".
func (w *Window) Where() string {
	if len(w.Components) == 0 {
		return "the whole site"
	}
	return strings.Join(w.Components, " ")
}

// Drain means that components keep the slivers they have and take no new ones.
type Drain struct {
	// Components are names, and ranges such as pc1..pc4, as they are written.
	Components []string
	// Text is one line for operators; it may be empty.
	Text string
	// Since is the beginning of the drain, and By the name of the operator. The file may lack
	// both.
	Since time.Time
	By    string
	// Line is the drain's line in the file.
	Line int
	// Orphaned means that the component is drained because its provider has orphans there.
	// Such a drain is in no file and ends with the last orphan.
	Orphaned bool

	names []string // the single names of Components
}

// NewOrphanDrain returns a drain of a component on which its provider has orphans.
func NewOrphanDrain(component, text string, since time.Time) *Drain {
	return &Drain{Components: []string{component}, Text: text, Since: since, Orphaned: true, names: []string{component}}
}

// With returns a copy of p with the extra drains. If p has no lockdown, the copy has the
// lockdown l. If a component is drained twice, the drain of p applies. Without l and extra
// drains, With returns p itself.
func (p *Plan) With(l *Lockdown, extra []*Drain) *Plan {
	if l == nil && len(extra) == 0 {
		return p
	}
	q := &Plan{Lockdown: cmp.Or(p.Lockdown, l), Planned: p.Planned, Drained: slices.Concat(p.Drained, extra), Fingerprint: p.Fingerprint}
	q.buildIndexes()
	return q
}

// Drain returns the drain of a component; nil if it is not drained.
func (p *Plan) Drain(component string) *Drain {
	if p == nil {
		return nil
	}
	return p.drained[component]
}

// DrainedNames returns the number of names in all drains. A name that occurs twice counts
// twice.
func (p *Plan) DrainedNames() (n int) {
	if p == nil {
		return 0
	}
	for _, d := range p.Drained {
		n += len(d.names)
	}
	return n
}

// IsInForce reports whether the window applies at the time now.
func (w *Window) IsInForce(now time.Time) bool { return !now.Before(w.From) && now.Before(w.Until) }

// buildIndexes fills in the fields that find windows and drains by component and by time.
func (p *Plan) buildIndexes() {
	p.named, p.drained = map[string][]*Window{}, map[string]*Drain{}
	for _, d := range p.Drained {
		for _, name := range d.names {
			if p.drained[name] == nil {
				p.drained[name] = d
			}
		}
	}
	for _, w := range p.Planned {
		p.moments = append(p.moments, w.From, w.Until)
		if len(w.names) == 0 {
			p.whole = append(p.whole, w)
		}
		for _, name := range w.names {
			if all := p.named[name]; len(all) == 0 || all[len(all)-1] != w { // w may name a component twice
				p.named[name] = append(all, w)
			}
		}
	}
	slices.SortFunc(p.moments, time.Time.Compare)
	p.moments = slices.CompactFunc(p.moments, time.Time.Equal)
}

// WindowAt returns the window that applies to a component at the time now; nil if there is
// none. If several windows apply, it returns the window that ends last.
func (p *Plan) WindowAt(component string, now time.Time) (found *Window) {
	p.eachWindow(component, func(w *Window) {
		if w.IsInForce(now) && (found == nil || w.Until.After(found.Until)) {
			found = w
		}
	})
	return found
}

// NextWindow returns the next window of a component after the time now; nil if there is none.
func (p *Plan) NextWindow(component string, now time.Time) (found *Window) {
	p.eachWindow(component, func(w *Window) {
		if w.From.After(now) && (found == nil || w.From.Before(found.From)) {
			found = w
		}
	})
	return found
}

// Windows returns all windows of a component, past and future.
func (p *Plan) Windows(component string) (windows []*Window) {
	p.eachWindow(component, func(w *Window) { windows = append(windows, w) })
	return windows
}

func (p *Plan) eachWindow(component string, f func(*Window)) {
	if p == nil {
		return
	}
	for _, windows := range [][]*Window{p.whole, p.named[component]} {
		for _, w := range windows {
			f(w)
		}
	}
}

// StablePeriod returns the period around now in which no window begins or ends. A zero start
// or end means that the period is unlimited on that side.
func (p *Plan) StablePeriod(now time.Time) (start, end time.Time) {
	if p == nil {
		return start, end
	}
	i, found := slices.BinarySearchFunc(p.moments, now, time.Time.Compare)
	if found {
		i++
	}
	if i > 0 {
		start = p.moments[i-1]
	}
	if i < len(p.moments) {
		end = p.moments[i]
	}
	return start, end
}

// Unknown returns the first unknown name of each entry. exists reports whether a component has
// a name.
func (p *Plan) Unknown(exists func(name string) bool) (unknown []Unknown) {
	if p == nil {
		return nil
	}
	addFirst := func(line int, names []string) {
		for _, name := range names {
			if !exists(name) {
				unknown = append(unknown, Unknown{line, name})
				return
			}
		}
	}
	for _, w := range p.Planned {
		addFirst(w.Line, w.names)
	}
	for _, d := range p.Drained {
		addFirst(d.Line, d.names)
	}
	return unknown
}

// DrainedWithout returns the drained names for which exists returns false: each name once, in
// the order of the file. It returns at most limit names.
func (p *Plan) DrainedWithout(exists func(name string) bool, limit int) (names []string) {
	if p == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, d := range p.Drained {
		for _, name := range d.names {
			if len(names) == limit {
				return names
			}
			if !seen[name] && !exists(name) {
				names, seen[name] = append(names, name), true
			}
		}
	}
	return names
}

// Unknown is a name that no component has, and the line of its entry.
type Unknown struct {
	Line int
	Name string
}
