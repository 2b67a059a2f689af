package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/urn"
)

// authority is what the checks of an authority have found out.
type authority struct {
	*probe
	services map[string]*client.Client // ch, sa, ma
	slice    string
}

const federationAPI = "Common Federation API v2, "

// RunAuthority runs the checks of the authority at https://HOST:PORT of the configuration's URL. It
// creates one slice, which ends when it expires.
func RunAuthority(ctx context.Context, c Config) (*Report, error) {
	p := &probe{config: c, am: map[int]*aggregate{}, created: map[int]bool{}}
	defer p.close()
	a := &authority{probe: p, services: map[string]*client.Client{}}
	base := c.URL
	if i := strings.Index(base, "/am/"); i >= 0 {
		base = base[:i]
	}
	for _, name := range []string{"ch", "sa", "ma"} {
		x, err := p.newClient(strings.TrimRight(base, "/")+"/"+name+"/2", c.CertFile, c.KeyFile)
		if err != nil {
			return nil, err
		}
		a.services[name] = x
	}
	return p.runAll(ctx, a.checks()), nil
}

func (a *authority) call(service, method string, params ...xmlrpc.Value) (xmlrpc.Value, error) {
	return a.services[service].CallAuthority(a.ctx, method, params...)
}

// requireUserURN returns the URN of the caller, from the user credential.
func (a *authority) requireUserURN() (string, error) {
	if u := a.userURN(); u != "" {
		return u, nil
	}
	return "", notTried("it needs the user's credential, to know the URN of the user")
}

func match(name string, v xmlrpc.Value) xmlrpc.Struct {
	return xmlrpc.Struct{option("match", xmlrpc.Struct{option(name, v)})}
}

var noCredentials = []xmlrpc.Value{}

// checks returns the checks of an authority, each after those that it needs.
func (a *authority) checks() (list []check) {
	add := func(name, clause string, needs []string, changes bool, run func() error) {
		list = append(list, check{"authority." + name, federationAPI + clause, needs, changes, func(*probe) error { return run() }})
	}
	for _, s := range []string{"ch", "sa", "ma"} {
		add(s+"-version", "get_version", nil, false, func() error { return a.getVersion(s) })
	}
	add("services", "lookup of SERVICE", []string{"authority.ch-version"}, false, func() error {
		for _, kind := range []string{"SLICE_AUTHORITY", "MEMBER_AUTHORITY"} {
			v, err := a.call("ch", "lookup", "SERVICE", noCredentials, match("SERVICE_TYPE", kind))
			if err != nil {
				return err
			}
			found, ok := v.([]xmlrpc.Value)
			if !ok || len(found) == 0 {
				return fmt.Errorf("the lookup of %s returns %T, not a list of services", kind, v)
			}
			if s, _ := found[0].(xmlrpc.Struct); text(s, "SERVICE_URN") == "" || text(s, "SERVICE_URL") == "" {
				return fmt.Errorf("%s has no SERVICE_URN and SERVICE_URL", kind)
			}
		}
		return nil
	})
	add("trust-roots", "get_trust_roots", []string{"authority.ch-version"}, false, func() error {
		v, err := a.call("ch", "get_trust_roots")
		if list, _ := v.([]xmlrpc.Value); err == nil && len(list) == 0 {
			err = errors.New("there are no trust roots")
		}
		return err
	})
	add("user-credential", "get_credentials of a member", []string{"authority.ma-version"}, false, func() error {
		me, err := a.requireUserURN()
		if err != nil {
			return err
		}
		v, err := a.call("ma", "get_credentials", me, noCredentials, xmlrpc.Struct{})
		if err == nil {
			_, err = client.FirstCredential(v)
		}
		return err
	})
	add("other-credential", "get_credentials of a member", []string{"authority.user-credential"}, false, func() error {
		u, err := urn.Parse(a.userURN())
		if err != nil {
			return err
		}
		u.Name += "-other"
		return refusedCall(a.call("ma", "get_credentials", u.String(), noCredentials, xmlrpc.Struct{}))
	})
	add("member", "lookup of MEMBER", []string{"authority.user-credential"}, false, func() error {
		v, err := a.call("ma", "lookup", "MEMBER", noCredentials, match("MEMBER_URN", a.userURN()))
		if err != nil {
			return err
		}
		s, _ := v.(xmlrpc.Struct)
		m, _ := s.Get(a.userURN())
		if fields, _ := m.(xmlrpc.Struct); text(fields, "MEMBER_USERNAME") == "" {
			return fmt.Errorf("the lookup returns %v, without the member's MEMBER_USERNAME", v)
		}
		return nil
	})
	add("keys", "lookup of KEY", []string{"authority.user-credential"}, false, func() error {
		v, err := a.call("ma", "lookup", "KEY", noCredentials, match("KEY_MEMBER", a.userURN()))
		if _, ok := v.(xmlrpc.Struct); err == nil && !ok {
			err = fmt.Errorf("the lookup returns %T, not a struct by KEY_ID", v)
		}
		return err
	})
	a.sliceChecks(add)
	return list
}

func (a *authority) sliceChecks(add func(name, clause string, needs []string, changes bool, run func() error)) {
	created := []string{"authority.slice-created"}
	name := "probe" + strings.ToLower(rand.Text()[:10])
	fields := xmlrpc.Struct{option("fields", xmlrpc.Struct{option("SLICE_NAME", name)})}
	add("slice-created", "create of SLICE", []string{"authority.sa-version", "authority.user-credential"}, true, func() error {
		v, err := a.call("sa", "create", "SLICE", noCredentials, fields)
		if err != nil {
			return err
		}
		s, _ := v.(xmlrpc.Struct)
		if a.slice = text(s, "SLICE_URN"); a.slice == "" {
			return fmt.Errorf("create returns %v, without SLICE_URN", v)
		}
		return nil
	})
	add("slice-twice", "create of SLICE, DUPLICATE_ERROR", created, true, func() error {
		_, err := a.call("sa", "create", "SLICE", noCredentials, fields)
		if e, ok := errors.AsType[*client.AuthorityError](err); ok && e.Code == client.DuplicateCode {
			return nil
		}
		return fmt.Errorf("a second slice of that name is answered with %v, not with the code 5", err)
	})
	add("slice-credential", "get_credentials of a slice", created, true, func() error {
		v, err := a.call("sa", "get_credentials", a.slice, noCredentials, xmlrpc.Struct{})
		if err != nil {
			return err
		}
		doc, err := client.FirstCredential(v)
		if err == nil && !strings.Contains(string(doc), a.slice) {
			err = errors.New("the credential is not for the slice")
		}
		return err
	})
	add("slice-renewed", "update of SLICE", created, true, func() error { return a.renewSlice() })
	add("slice-shortened", "update of SLICE", []string{"authority.slice-renewed"}, true, func() error {
		return refusedCall(a.call("sa", "update", "SLICE", a.slice, noCredentials,
			xmlrpc.Struct{option("fields", xmlrpc.Struct{option("SLICE_EXPIRATION", client.Time(time.Now().Add(time.Hour)))})}))
	})
	add("slice-listed", "lookup_for_member", created, true, func() error {
		v, err := a.call("sa", "lookup_for_member", "SLICE", a.userURN(), noCredentials, xmlrpc.Struct{})
		if err != nil {
			return err
		}
		list, _ := v.([]xmlrpc.Value)
		for _, x := range list {
			if s, _ := x.(xmlrpc.Struct); text(s, "SLICE_URN") == a.slice && text(s, "SLICE_ROLE") != "" {
				return nil
			}
		}
		return errors.New("the member's slices lack the new one, or the member's role")
	})
	add("slice-members", "lookup_members", created, true, func() error {
		v, err := a.call("sa", "lookup_members", "SLICE", a.slice, noCredentials, xmlrpc.Struct{})
		if list, _ := v.([]xmlrpc.Value); err == nil && len(list) != 1 {
			err = fmt.Errorf("a new slice has %d members, not 1", len(list))
		}
		return err
	})
	add("unknown-slice", "get_credentials of a slice", created, true, func() error {
		return refusedCall(a.call("sa", "get_credentials", a.slice+"x", noCredentials, xmlrpc.Struct{}))
	})
}

func (a *authority) getVersion(service string) error {
	v, err := a.call(service, "get_version")
	if err != nil {
		return err
	}
	s, ok := v.(xmlrpc.Struct)
	if !ok {
		return fmt.Errorf("the value is %T, not a struct", v)
	}
	for _, name := range []string{"VERSION", "CREDENTIAL_TYPES", "FIELDS"} {
		if _, ok := s.Get(name); !ok {
			return fmt.Errorf("%s is missing, which jFed requires", name)
		}
	}
	v, _ = s.Get("FIELDS")
	fields, _ := v.(xmlrpc.Struct)
	for _, f := range fields {
		d, _ := f.Value.(xmlrpc.Struct)
		if create, ok := d.Get("CREATE"); ok && create != "REQUIRED" && create != "ALLOWED" && create != "NOT_ALLOWED" {
			return fmt.Errorf("%s has CREATE %v, which is no value that jFed knows", f.Name, create)
		}
	}
	return nil
}

func (a *authority) renewSlice() error {
	until := client.Time(time.Now().Add(14 * 24 * time.Hour))
	if _, err := a.call("sa", "update", "SLICE", a.slice, noCredentials, xmlrpc.Struct{option("fields", xmlrpc.Struct{option("SLICE_EXPIRATION", until)})}); err != nil {
		return err
	}
	v, err := a.call("sa", "lookup", "SLICE", noCredentials, match("SLICE_URN", a.slice))
	if err != nil {
		return err
	}
	s, _ := v.(xmlrpc.Struct)
	x, _ := s.Get(a.slice)
	record, _ := x.(xmlrpc.Struct)
	got, err := time.Parse(time.RFC3339, text(record, "SLICE_EXPIRATION"))
	if err != nil || client.Time(got) != until {
		return fmt.Errorf("after the renewal until %s, SLICE_EXPIRATION is %q", until, text(record, "SLICE_EXPIRATION"))
	}
	return nil
}

// refusedCall fails for a call that succeeded or that had no answer.
func refusedCall(v xmlrpc.Value, err error) error {
	switch _, ok := errors.AsType[*client.AuthorityError](err); {
	case ok:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the call succeeds, and returns %.200v", v)
}
