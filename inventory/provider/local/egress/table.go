package egress

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// ruleset is an nftables table of this package. It is installed in one transaction. The
// table contains an empty chain whose name is the version of its rules. If an installed
// table already contains this chain, install does not replace the table, so that its
// counters continue.
type ruleset struct {
	table  *nftables.Table
	sets   []*nftables.Set
	fixed  map[*nftables.Set][]nftables.SetElement
	chains []*nftables.Chain
	rules  []*nftables.Rule
	// unread is a chain that the library can write but cannot read. The library decodes
	// the direction of a connection as four bytes, while the kernel sends one. So an
	// error while the chain is read means that it has rules.
	unread *nftables.Chain
}

func newRuleset(name string) *ruleset {
	return &ruleset{
		table: &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4},
		fixed: map[*nftables.Set][]nftables.SetElement{},
	}
}

func (r *ruleset) set(s nftables.Set, elements ...nftables.SetElement) *nftables.Set {
	s.Table, s.ID = r.table, uint32(len(r.sets)+1)
	r.sets, r.fixed[&s] = append(r.sets, &s), elements
	return &s
}

// meter adds a set that holds a rate or a number of connections for each source
// address. If expires is true, an element is removed after meterTime.
func (r *ruleset) meter(name string, expires bool) *nftables.Set {
	s := nftables.Set{Name: name, KeyType: nftables.TypeIPAddr, Dynamic: true, Size: 1 << 16}
	if expires {
		s.HasTimeout, s.Timeout = true, meterTime
	}
	return r.set(s)
}

func (r *ruleset) chain(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority nftables.ChainPriority, policy nftables.ChainPolicy) *nftables.Chain {
	c := &nftables.Chain{Name: name, Table: r.table, Type: kind, Hooknum: hook, Priority: &priority, Policy: &policy}
	r.chains = append(r.chains, c)
	return c
}

func (r *ruleset) rule(c *nftables.Chain, parts ...part) {
	r.rules = append(r.rules, &nftables.Rule{Table: r.table, Chain: c, Exprs: slices.Concat(parts...)})
}

// version returns a name that is different for different rules.
func (r *ruleset) version() string {
	h := sha256.New()
	for _, s := range r.sets {
		fmt.Fprintf(h, "%s %v %d %v\n", s.Name, s.KeyType, s.Timeout, r.fixed[s])
	}
	for _, c := range r.chains {
		fmt.Fprintf(h, "%s %s %d %d %d\n", c.Name, c.Type, *c.Hooknum, *c.Priority, *c.Policy)
	}
	for _, rule := range r.rules {
		fmt.Fprintln(h, rule.Chain.Name)
		for _, e := range rule.Exprs {
			if d, ok := e.(*expr.Dynset); ok { // its state is behind a pointer
				fmt.Fprintf(h, " %s %d %T %+v", d.SetName, d.Operation, d.Exprs[0], d.Exprs[0])
				continue
			}
			fmt.Fprintf(h, " %T %+v", e, e)
		}
	}
	return "version-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// openNFTables opens nftables in the namespace of the calling thread.
func openNFTables() (*nftables.Conn, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("cannot open nftables: %w", err)
	}
	return c, nil
}

// install installs the table in the network namespace of the calling thread. If an intact
// table of the same version exists, it changes nothing and returns true.
func (r *ruleset) install() (was bool, err error) {
	c, err := openNFTables()
	if err != nil {
		return false, err
	}
	version := r.version()
	if _, err := c.ListChain(r.table, version); err == nil && r.isIntact(c) {
		return true, nil
	}
	c.AddTable(r.table)
	c.DelTable(r.table)
	c.AddTable(r.table)
	for _, s := range r.sets {
		if err := c.AddSet(s, r.fixed[s]); err != nil {
			return false, fmt.Errorf("cannot make the set %s of the nftables table %s: %w", s.Name, r.table.Name, err)
		}
	}
	for _, chain := range r.chains {
		c.AddChain(chain)
	}
	for _, rule := range r.rules {
		c.AddRule(rule)
	}
	c.AddChain(&nftables.Chain{Name: version, Table: r.table})
	if err := c.Flush(); err != nil {
		return false, fmt.Errorf("cannot make the nftables table %s: %w", r.table.Name, err)
	}
	return false, nil
}

// isIntact reports whether the installed table has all rules and fixed elements. It compares only their
// numbers.
func (r *ruleset) isIntact(c *nftables.Conn) bool {
	for _, chain := range r.chains {
		want := 0
		for _, rule := range r.rules {
			if rule.Chain == chain {
				want++
			}
		}
		rules, err := c.GetRules(r.table, chain)
		if err == nil && len(rules) != want {
			return false
		}
		if err != nil && (chain != r.unread || errors.Is(err, unix.ENOENT)) {
			return false
		}
	}
	for s, elements := range r.fixed {
		if len(elements) == 0 {
			continue
		}
		if have, err := c.GetSetElements(s); err != nil || len(have) != len(elements) {
			return false
		}
	}
	return true
}

func fill(s *nftables.Set, elements []nftables.SetElement) error {
	c, err := openNFTables()
	if err != nil {
		return err
	}
	c.FlushSet(s)
	if len(elements) > 0 {
		if err := c.SetAddElements(s, elements); err != nil {
			return fmt.Errorf("cannot fill the set %s of the nftables table %s: %w", s.Name, s.Table.Name, err)
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("cannot fill the set %s of the nftables table %s: %w", s.Name, s.Table.Name, err)
	}
	return nil
}

// dropTable works in the network namespace of the calling thread. A missing table is no
// error.
func dropTable(name string) error {
	c, err := openNFTables()
	if err != nil {
		return err
	}
	c.DelTable(&nftables.Table{Name: name, Family: nftables.TableFamilyIPv4})
	if err := c.Flush(); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot remove the nftables table %s: %w", name, err)
	}
	return nil
}

func addresses(all []netip.Addr) (elements []nftables.SetElement) {
	for _, a := range all {
		elements = append(elements, nftables.SetElement{Key: a.AsSlice()})
	}
	return elements
}

// intervals returns networks as elements of an nftables set: a start and an end for each
// range of addresses. A range that ends with the highest address has no end element.
func intervals(networks []netip.Prefix) (elements []nftables.SetElement) {
	key := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for _, s := range spans(networks) {
		elements = append(elements, nftables.SetElement{Key: key(s.first)})
		if s.last != ^uint32(0) {
			elements = append(elements, nftables.SetElement{Key: key(s.last + 1), IntervalEnd: true})
		}
	}
	return elements
}
