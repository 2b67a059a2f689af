package conformance

import (
	"errors"
	"fmt"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/rspec/view"
)

func lifeChecks2() []check {
	const api = "AM API v2, "
	return []check{
		{"life2.create", api + "CreateSliver", []string{"version2.answer"}, true, (*probe).createSliver},
		{"life2.status", api + "SliverStatus", []string{"life2.create"}, true, (*probe).awaitStatus2},
		{"life2.manifest", api + "ListResources, geni_slice_urn", []string{"life2.create"}, true, func(p *probe) error {
			a := p.am[2]
			v, err := p.succeed(a, "ListResources", a.credentials(p.config.Slice), options(option("geni_slice_urn", p.config.SliceURN)))
			if err != nil {
				return err
			}
			return checkManifest(v)
		}},
		{"life2.renew", api + "RenewSliver", []string{"life2.create"}, true, func(p *probe) error {
			until := time.Now().Add(30 * time.Minute).UTC()
			if end := p.config.SliceExpires; !end.IsZero() && until.After(end) {
				return notTried("the credential of the slice ends too soon")
			}
			return p.expectTrue("RenewSliver", client.Time(until))
		}},
	}
}

// endChecks2 run after the checks that need the nodes.
func endChecks2() []check {
	const api = "AM API v2, "
	return []check{
		{"life2.delete", api + "DeleteSliver", []string{"life2.create"}, true, func(p *probe) error {
			err := p.expectTrue("DeleteSliver")
			if err == nil {
				delete(p.created, 2)
			}
			return err
		}},
		{"life2.deleted", api + "SliverStatus", []string{"life2.delete"}, true, func(p *probe) error {
			a := p.am[2]
			r, err := p.call(a, "SliverStatus", p.config.SliceURN, a.credentials(p.config.Slice), xmlrpc.Struct{})
			if err == nil && r.code == 0 {
				err = errors.New("SliverStatus succeeds after DeleteSliver")
			}
			return err
		}},
	}
}

func (p *probe) createSliver() error {
	if err := p.needSlice(); err != nil {
		return err
	}
	if p.created[3] {
		return notTried("the slivers of version 3 could not be deleted")
	}
	a := p.am[2]
	if a.ad == nil {
		a.ad = p.am[3].ad
	}
	key, err := newSSHKey()
	if err != nil {
		return err
	}
	p.created[2] = true
	v, err := p.succeed(a, "CreateSliver", p.config.SliceURN, a.credentials(p.config.Slice), p.requestFor(a),
		client.Users([]client.User{{URN: p.userURN(), Keys: []string{key.public}}}), xmlrpc.Struct{})
	if err != nil {
		return err
	}
	return checkManifest(v)
}

func checkManifest(v xmlrpc.Value) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("the value is %T, not a manifest", v)
	}
	_, err := read(s, view.Manifest)
	return err
}

// expectTrue calls a method of version 2 that returns true.
func (p *probe) expectTrue(method string, more ...xmlrpc.Value) error {
	a := p.am[2]
	params := append([]xmlrpc.Value{p.config.SliceURN, a.credentials(p.config.Slice)}, more...)
	v, err := p.succeed(a, method, append(params, xmlrpc.Struct{})...)
	if err == nil && v != true {
		err = fmt.Errorf("the value of %s is %v, not true", method, v)
	}
	return err
}

// awaitStatus2 waits until geni_status is ready.
func (p *probe) awaitStatus2() error {
	a := p.am[2]
	deadline := time.Now().Add(p.config.Wait)
	for {
		v, err := p.succeed(a, "SliverStatus", p.config.SliceURN, a.credentials(p.config.Slice), xmlrpc.Struct{})
		if err != nil {
			return err
		}
		s, _ := v.(xmlrpc.Struct)
		resources, _ := s.Get("geni_resources")
		list, ok := resources.([]xmlrpc.Value)
		switch status := text(s, "geni_status"); {
		case text(s, "geni_urn") != p.config.SliceURN:
			return fmt.Errorf("geni_urn of SliverStatus is %q, not the slice", text(s, "geni_urn"))
		case !ok || len(list) == 0:
			return fmt.Errorf("geni_resources is %T with no elements", resources)
		case status == "failed":
			return errors.New("geni_status is failed")
		case status == "ready":
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("after %s, geni_status is %q", p.config.Wait, status)
		}
		select {
		case <-p.ctx.Done():
			return p.ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
