package conformance

import (
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/rspec/view"
	"patchbay/schemas"
)

// The marks that the request carries, and that the manifest must repeat.
const (
	extensionMark = `<x:mark xmlns:x="http://example.org/probe/1" note="caf&#xE9; &lt;1&gt;"><x:inner a='1'/></x:mark>`
	foreignMark   = `<node client_id="elsewhere" component_manager_id="urn:publicid:IDN+elsewhere.example.org+authority+cm" exclusive="false"><sliver_type name="vm"/><!-- not ours --></node>`
)

// plainRequest has one node. %s is replaced by marks.
const plainRequest = `<?xml version="1.0" encoding="UTF-8"?>
<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">
  <node client_id="probe"%s exclusive="%s">%s</node>%s
</rspec>
`

// requestFor returns the request of the configuration, or one node of the first kind that the
// advertisement has.
func (p *probe) requestFor(a *aggregate) string {
	if len(p.config.Request) > 0 {
		return string(p.config.Request)
	}
	exclusive, inner := "", ""
	if a.ad != nil {
		for _, n := range a.ad.Nodes {
			for _, e := range view.Children(n.Element, "sliver_type", schemas.Namespace) {
				if name := view.Value(e, "name"); name != "" && inner == "" {
					exclusive, inner = view.Value(n.Element, "exclusive"), fmt.Sprintf(`<sliver_type name="%s"/>`, escaped(name))
				}
			}
		}
	}
	manager := ""
	if a.urn != "" {
		manager = fmt.Sprintf(` component_manager_id="%s"`, escaped(a.urn))
	}
	if exclusive != "true" && exclusive != "1" {
		exclusive = "false"
	}
	return fmt.Sprintf(plainRequest, manager, exclusive, inner+extensionMark, foreignMark)
}

// escaped returns a text of the aggregate as the value of an attribute.
func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder accepts everything
	return b.String()
}

func (p *probe) needSlice() error {
	if p.config.SliceURN == "" || len(p.config.Slice) == 0 {
		return notTried("it needs the credential of a slice")
	}
	return nil
}

// slice calls a method of version 3 with the slice and its credential.
func (p *probe) slice(method string, more ...xmlrpc.Value) (xmlrpc.Value, error) {
	a := p.am[3]
	return p.succeed(a, method, append([]xmlrpc.Value{client.Strings([]string{p.config.SliceURN}), a.credentials(p.config.Slice)}, more...)...)
}

func lifeChecks3() []check {
	const api = "AM API v3, "
	return []check{
		{"life3.empty", api + "Status", []string{"version3.answer"}, false, func(p *probe) error {
			if err := p.needSlice(); err != nil {
				return err
			}
			r, err := p.call(p.am[3], "Status", client.Strings([]string{p.config.SliceURN}), p.am[3].credentials(p.config.Slice), xmlrpc.Struct{})
			if err != nil || r.code != 0 {
				return err
			}
			if list, err := p.readSlivers("Status", r.value); err == nil && len(list) > 0 {
				return notTried("the slice has slivers already; name an empty one")
			}
			return errors.New("the call Status of a slice without slivers succeeds")
		}},
		{"life3.allocate", api + "Allocate", []string{"life3.empty"}, true, (*probe).allocate},
		{"life3.lease", api + "Allocate, geni_expires", []string{"life3.allocate"}, true, func(p *probe) error { return p.checkLeases("Status", "Status") }},
		{"life3.status", api + "Status", []string{"life3.allocate"}, true, func(p *probe) error {
			v, err := p.slice("Status", xmlrpc.Struct{})
			if err != nil {
				return err
			}
			return p.expectSlivers("Status", v, "geni_allocated")
		}},
		{"life3.provision", api + "Provision", []string{"life3.allocate"}, true, (*probe).provision},
		{"life3.configured", api + "Operational states", []string{"life3.provision"}, true, func(p *probe) error {
			return p.await("geni_notready", "geni_ready")
		}},
		{"life3.started", api + "PerformOperationalAction, geni_start", []string{"life3.configured"}, true, func(p *probe) error {
			if _, err := p.slice("PerformOperationalAction", "geni_start", xmlrpc.Struct{}); err != nil {
				return err
			}
			return p.await("geni_ready")
		}},
		{"life3.describe", api + "Describe", []string{"life3.provision"}, true, (*probe).describe},
		{"life3.renew", api + "Renew", []string{"life3.provision"}, true, (*probe).renew},
		{"life3.renew-too-long", api + "Renew", []string{"life3.provision"}, true, (*probe).renewTooLong},
		{"life3.unknown-action", api + "PerformOperationalAction", []string{"life3.provision"}, true, func(p *probe) error {
			a := p.am[3]
			return p.refused(a, []int{1, 2, 7, 13}, "PerformOperationalAction", client.Strings([]string{p.config.SliceURN}), a.credentials(p.config.Slice), "no_such_action", xmlrpc.Struct{})
		}},
	}
}

// endChecks3 run after the checks that need the nodes.
func endChecks3() []check {
	return []check{
		{"life3.delete", "AM API v3, Delete", []string{"life3.allocate"}, true, func(p *probe) error {
			v, err := p.slice("Delete", xmlrpc.Struct{})
			if err != nil {
				return err
			}
			delete(p.created, 3)
			return p.expectSlivers("Delete", v, "geni_unallocated")
		}},
		{"life3.deleted", "AM API v3, Delete", []string{"life3.delete"}, true, func(p *probe) error {
			r, err := p.call(p.am[3], "Status", client.Strings([]string{p.config.SliceURN}), p.am[3].credentials(p.config.Slice), xmlrpc.Struct{})
			if err == nil && r.code == 0 {
				err = errors.New("the call Status succeeds after Delete")
			}
			return err
		}},
		{"life3.delete-again", "AM API v3, Delete", []string{"life3.delete"}, true, func(p *probe) error {
			a := p.am[3]
			return p.refused(a, []int{0, 12, 15}, "Delete", client.Strings([]string{p.config.SliceURN}), a.credentials(p.config.Slice), xmlrpc.Struct{})
		}},
	}
}

func (p *probe) allocate() error {
	a := p.am[3]
	a.request = p.requestFor(a)
	p.created[3] = true // also if the answer is lost
	a.allocated = time.Now()
	v, err := p.succeed(a, "Allocate", p.config.SliceURN, a.credentials(p.config.Slice), a.request, xmlrpc.Struct{})
	if err != nil {
		return err
	}
	list, err := p.readSlivers("Allocate", v)
	if err != nil {
		return err
	}
	for _, x := range list {
		if x.allocation != "geni_allocated" {
			return fmt.Errorf("%s is %s after Allocate, not geni_allocated", x.urn, x.allocation)
		}
		a.slivers = append(a.slivers, x.urn)
	}
	if len(list) == 0 {
		return errors.New("the call Allocate succeeds without slivers")
	}
	return nil
}

// checkLeases fails for a lease that is over, or longer than the credential.
func (p *probe) checkLeases(method, what string) error {
	v, err := p.slice(method, xmlrpc.Struct{})
	if err != nil {
		return err
	}
	list, err := p.readSlivers(method, v)
	if err != nil {
		return err
	}
	for _, x := range list {
		switch {
		case !x.expires.After(time.Now()):
			return fmt.Errorf("geni_expires of %s is %s, which is over", x.urn, x.expires.Format(time.RFC3339))
		case !p.config.SliceExpires.IsZero() && x.expires.After(p.config.SliceExpires.Add(time.Second)):
			return fmt.Errorf("the lease of %s lasts until %s, after the end of the credential, %s", x.urn, x.expires.Format(time.RFC3339), p.config.SliceExpires.Format(time.RFC3339))
		}
	}
	return nil
}

// expectSlivers fails unless the answer has exactly the slivers of Allocate, in the state.
func (p *probe) expectSlivers(method string, v xmlrpc.Value, allocation string) error {
	list, err := p.readSlivers(method, v)
	if err != nil {
		return err
	}
	var urns []string
	for _, x := range list {
		urns = append(urns, x.urn)
		if x.allocation != allocation {
			return fmt.Errorf("%s: %s is %s, not %s", method, x.urn, x.allocation, allocation)
		}
	}
	slices.Sort(urns)
	if want := slices.Sorted(slices.Values(p.am[3].slivers)); !slices.Equal(urns, want) {
		return fmt.Errorf("%s: the slivers are %v, and those of Allocate were %v", method, urns, want)
	}
	return nil
}

func (p *probe) provision() (err error) {
	a := p.am[3]
	if a.key, err = newSSHKey(); err != nil {
		return err
	}
	users := client.Users([]client.User{{URN: p.userURN(), Keys: []string{a.key.public}}})
	v, err := p.slice("Provision", options(option("geni_users", users)))
	if err != nil {
		return err
	}
	return p.expectSlivers("Provision", v, "geni_provisioned")
}

// userURN returns the owner of the user credential; "" if it is not known.
func (p *probe) userURN() string {
	_, rest, _ := strings.Cut(string(p.config.User), "<owner_urn>")
	u, _, _ := strings.Cut(rest, "</owner_urn>")
	return strings.TrimSpace(u)
}

// await polls until no sliver is in another state than the given ones. It fails for geni_failed.
func (p *probe) await(states ...string) error {
	const pause = 200 * time.Millisecond
	deadline := time.Now().Add(p.config.Wait)
	for {
		v, err := p.slice("Status", xmlrpc.Struct{})
		if err != nil {
			return err
		}
		list, err := p.readSlivers("Status", v)
		if err != nil {
			return err
		}
		waiting := ""
		for _, x := range list {
			switch {
			case x.operational == "geni_failed":
				return fmt.Errorf("%s is geni_failed: %s", x.urn, x.failure)
			case !slices.Contains(states, x.operational):
				waiting = fmt.Sprintf("%s is %s", x.urn, x.operational)
			}
		}
		switch {
		case len(list) == 0:
			return errors.New("the answer of Status has no slivers")
		case waiting == "":
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("after %s, %s", p.config.Wait, waiting)
		}
		select {
		case <-p.ctx.Done():
			return p.ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (p *probe) describe() error {
	v, err := p.slice("Describe", options())
	if err != nil {
		return err
	}
	if err := p.expectSlivers("Describe", v, "geni_provisioned"); err != nil {
		return err
	}
	s, _ := v.(xmlrpc.Struct)
	if got := text(s, "geni_urn"); got != p.config.SliceURN {
		return fmt.Errorf("the geni_urn of Describe is %q, not the slice", got)
	}
	manifest, err := client.Unpack(text(s, "geni_rspec"))
	if err != nil {
		return err
	}
	d, err := read(manifest, view.Manifest)
	if err == nil { // else the checks that follow use the manifest of an earlier answer
		p.am[3].manifest = d
	}
	return err
}

func (p *probe) renew() error {
	until := p.am[3].allocated.Add(30 * time.Minute).UTC().Truncate(time.Second)
	if end := p.config.SliceExpires; !end.IsZero() && until.After(end) {
		return notTried("the credential of the slice ends too soon")
	}
	v, err := p.slice("Renew", client.Time(until), xmlrpc.Struct{})
	if err != nil {
		return err
	}
	list, err := p.readSlivers("Renew", v)
	if err != nil {
		return err
	}
	for _, x := range list {
		if !x.expires.Equal(until) {
			return fmt.Errorf("after Renew until %s, %s expires %s", client.Time(until), x.urn, client.Time(x.expires))
		}
	}
	return nil
}

func (p *probe) renewTooLong() error {
	end := p.config.SliceExpires
	if end.IsZero() {
		return notTried("the end of the slice's credential is not known")
	}
	a := p.am[3]
	r, err := p.call(a, "Renew", client.Strings([]string{p.config.SliceURN}), a.credentials(p.config.Slice), client.Time(end.Add(24*time.Hour)), xmlrpc.Struct{})
	if err != nil || r.code != 0 {
		return err
	}
	list, err := p.readSlivers("Renew", r.value)
	for _, x := range list {
		if x.expires.After(end.Add(time.Second)) {
			return fmt.Errorf("the call Renew gives %s a lease until %s, after the end of the credential, %s", x.urn, client.Time(x.expires), client.Time(end))
		}
	}
	return err
}
