package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

type call struct {
	api     *API
	request Request
	version int
	now     time.Time
	event   Event

	targets   service.Targets
	presented []credentials.Presented
	rspec     string
	parsed    *rspec.Request
	until     time.Time
	action    am.Event
	options   xmlrpc.Struct // as received; unknown members are ignored
	parsedOptions
	grant credentials.Grant

	// release contains functions to call when the answer is complete.
	release []func()
	// ready is a complete body, with its envelope.
	ready   []byte
	gzipped bool
}

// run checks the call in this order: the types of the arguments, the caller and the
// credentials, the slice and its slivers, the options. Then it runs the method.
func (c *call) run(ctx context.Context, m method, params []xmlrpc.Value) (xmlrpc.Value, []string, error) {
	for i, p := range params {
		if err := m.args[i].read(c, p); err != nil {
			return nil, nil, bad("argument "+m.args[i].name, err)
		}
	}
	if err := c.readOptionValues(m, true); err != nil {
		return nil, nil, err
	}
	if m.right != "" {
		if err := c.authorize(m); err != nil {
			return nil, nil, err
		}
		release, err := c.api.agg.Hold(c.grant, c.targets)
		if err != nil {
			return nil, nil, err
		}
		c.release = append(c.release, release)
	}
	err := c.readOptionValues(m, false)
	if err == nil && c.event.Changes && c.api.cfg.Admit != nil {
		if err := c.api.cfg.Admit(); err != nil {
			return nil, nil, err
		}
	}
	if err == nil && m.parse != nil {
		err = m.parse(ctx, c)
	}
	if err != nil {
		// An error about the targets has precedence.
		return nil, nil, cmp.Or(c.api.agg.CheckTargets(c.grant, c.targets, c.serviceCall()), err)
	}
	return m.handle(ctx, c)
}

// readOptionValues reads the options of a method whose field early has the given value. It
// returns the error of the first option that is invalid or missing. Early options may name the slice of the call, which
// it then sets as the target.
func (c *call) readOptionValues(m method, early bool) (firstErr error) {
	for _, o := range m.options {
		if o.early != early {
			continue
		}
		var err error
		switch v, _ := c.options.Get(o.name); {
		case v != nil:
			err = bad("option "+o.name, o.read(c, v))
		case o.required != "":
			err = am.Errorf(am.BadArgs, "option %s is required: %s", o.name, o.required).With(am.MissingArgs)
		}
		firstErr = cmp.Or(firstErr, err)
	}
	if early && !c.slice.IsZero() {
		c.targets.Slice, c.event.Slice = c.slice, c.slice
	}
	return firstErr
}

// mayChange asks Request.MayChange about a call of a changing method.
func (c *call) mayChange(caller string) error {
	if !c.event.Changes || c.request.MayChange == nil {
		return nil
	}
	return c.request.MayChange(caller)
}

// authorize identifies the caller and stores the grant of the call if the call is allowed. It also sets who called, and by
// which credentials, in the event, if they are known even for a refused call.
func (c *call) authorize(m method) error {
	right := m.right
	if !c.slice.IsZero() {
		right = m.sliceRight
	}
	caller := c.api.auth.Identify(c.request.Chain, c.now)
	c.event.Caller = caller.URN
	if c.event.Changes && caller.Err == nil {
		if err := c.mayChange(caller.URN.Key()); err != nil {
			return err
		}
		for _, p := range c.presented[:min(len(c.presented), maxShown)] {
			c.event.Credentials = append(c.event.Credentials, p.Fingerprint())
		}
	}
	if len(c.presented) == 0 && right == credentials.RightListResources && caller.Err == nil {
		return am.Errorf(am.BadArgs, "the list of credentials is empty; give your user credential").With(am.MissingArgs)
	}
	grant, err := c.api.auth.Authorize(caller, c.presented, c.speakingFor, right, c.now)
	if err != nil {
		return err
	}
	if caller.Err != nil { // only the credentials have identified the caller
		if err := c.mayChange(cmp.Or(grant.Speaker(), grant.Caller()).Key()); err != nil {
			return err
		}
	}
	c.grant = grant
	c.event.Caller, c.event.Speaker = grant.Caller(), grant.Speaker()
	c.event.Credentials, c.event.SHA1 = grant.Fingerprints(), grant.SHA1() || caller.Chain.SHA1()
	// The right to the slice is checked before the remaining options, whose errors could
	// reveal more about the slice.
	if !c.targets.Slice.IsZero() {
		if _, err := grant.Over(c.targets.Slice); err != nil {
			return err
		}
	}
	return nil
}

// bad returns a BadArgs error with the name of an argument or option and the text of err.
// If err is nil or has a code, bad returns err unchanged.
func bad(name string, err error) error {
	if _, ok := errors.AsType[*am.Error](err); ok || err == nil {
		return err
	}
	return am.Errorf(am.BadArgs, "%s: %v", name, err)
}

func (c *call) readSlice(v xmlrpc.Value) error {
	s, err := text(v)
	if err != nil {
		return err
	}
	u, err := parseSlice(s)
	if err == nil {
		c.targets.Slice, c.event.Slice = u, u
	}
	return err
}

func parseSlice(s string) (urn.URN, error) {
	u, err := urn.Parse(strings.TrimSpace(s))
	if err == nil && u.Type != urn.Slice {
		err = fmt.Errorf("%s is a %s, not a slice", u, u.Type)
	}
	return u, err
}

// maxTargets limits the slivers that one call may name.
const maxTargets = 10000

// eachURN calls f with the URNs of a list, until f fails.
func eachURN(list []xmlrpc.Value, f func(urn.URN) error) error {
	if len(list) > maxTargets {
		return fmt.Errorf("it names %d URNs; the limit is %d", len(list), maxTargets)
	}
	for _, v := range list {
		s, ok := xmlrpc.AsString(v)
		if !ok {
			return errors.New("it must hold strings only")
		}
		u, err := urn.Parse(strings.TrimSpace(s))
		if err == nil {
			err = f(u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readURNs reads the argument urns: one slice, or slivers.
func (c *call) readURNs(v xmlrpc.Value) error {
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return errors.New("it must be an array of strings")
	}
	if len(list) == 0 {
		return errors.New("it is empty; name one slice, or slivers of one slice")
	}
	err := eachURN(list, func(u urn.URN) error {
		switch u.Type {
		case urn.Slice:
			if !c.targets.Slice.IsZero() && !c.targets.Slice.Equal(u) {
				return errors.New("it names two slices; name one")
			}
			c.targets.Slice, c.event.Slice = u, u
		case urn.Sliver:
			c.targets.Slivers = append(c.targets.Slivers, u)
		default:
			return fmt.Errorf("%s is a %s; name one slice, or slivers of one slice", u, u.Type)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !c.targets.Slice.IsZero() && len(c.targets.Slivers) > 0 {
		return errors.New("it mixes a slice and slivers; name one slice, or slivers of one slice")
	}
	return nil
}

// maxShown limits how many credentials of a refused call are logged.
const maxShown = 4

const maxCredentials = 32

func (c *call) readCredentials(v xmlrpc.Value) (err error) {
	c.presented, err = ReadCredentials(v)
	return err
}

// ReadCredentials reads the array of credentials of a call. It does not check them.
func ReadCredentials(v xmlrpc.Value) (presented []credentials.Presented, err error) {
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return nil, errors.New("it must be an array")
	}
	if len(list) > maxCredentials {
		return nil, fmt.Errorf("it holds %d credentials; the limit is %d", len(list), maxCredentials)
	}
	for i, v := range list {
		p, err := readCredential(v)
		if err != nil {
			return nil, fmt.Errorf("number %d: %w", i+1, err)
		}
		presented = append(presented, p)
	}
	return presented, nil
}

// readCredential reads a credential in either of its wire forms: a struct of geni_type,
// geni_version and geni_value, or the bare document.
func readCredential(v xmlrpc.Value) (credentials.Presented, error) {
	if text, ok := xmlrpc.AsString(v); ok {
		return credentials.Presented{Type: "geni_sfa", Version: "3", Text: text}, nil
	}
	s, ok := v.(xmlrpc.Struct)
	if !ok {
		return credentials.Presented{}, fmt.Errorf("it must be a struct with geni_type, geni_version and geni_value")
	}
	var p credentials.Presented
	for _, m := range []struct {
		name string
		into *string
	}{{"geni_type", &p.Type}, {"geni_version", &p.Version}, {"geni_value", &p.Text}} {
		v, ok := s.Get(m.name)
		if !ok && m.name == "geni_version" {
			continue
		}
		if !ok {
			return p, fmt.Errorf("its member %s is missing", m.name)
		}
		if *m.into, ok = scalar(v); !ok {
			return p, fmt.Errorf("its member %s must be a string", m.name)
		}
	}
	return p, nil
}

// scalar returns a string value itself, and an int value as decimal text, because some
// clients send versions as numbers. It returns false for any other value.
func scalar(v xmlrpc.Value) (string, bool) {
	if n, ok := v.(int); ok {
		return fmt.Sprint(n), true
	}
	return xmlrpc.AsString(v)
}

// readRSpec reads the text of the argument rspec; parseRequest parses it later.
func (c *call) readRSpec(v xmlrpc.Value) (err error) {
	c.rspec, err = text(v)
	return err
}

func (c *call) readTime(v xmlrpc.Value) (err error) {
	if c.until, err = ParseTime(v); err == nil && c.until.IsZero() {
		err = errors.New("it is empty; give a time such as 2030-01-31T12:00:00Z")
	}
	return err
}

func (c *call) readAction(v xmlrpc.Value) error {
	s, err := text(v)
	c.action = am.Event(s)
	return err
}

func (c *call) readUsers(v xmlrpc.Value) (err error) {
	c.users, err = users(v)
	return err
}

// readOptions stores the options struct; readOptionValues reads its members.
func (c *call) readOptions(v xmlrpc.Value) error {
	if list, ok := v.([]xmlrpc.Value); ok && len(list) == 0 {
		return nil // Perl and PHP programs encode an empty struct this way
	}
	s, ok := v.(xmlrpc.Struct)
	if !ok {
		return errors.New("it must be a struct")
	}
	c.options = s
	return nil
}

func (c *call) serviceCall() service.Call {
	return service.Call{Request: c.request.ID, Method: c.event.Method, API: c.version, Remote: c.request.Remote, BestEffort: c.bestEffort}
}
