package authority

import (
	"time"

	"patchbay/am/api"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/credentials/trial"
)

var sliceObject = object{
	name: objectSlice,
	fields: []field{
		{name: "SLICE_URN", kind: typeURN, match: true},
		{name: "SLICE_UID", kind: typeUID, match: true},
		{name: "SLICE_NAME", kind: typeString, create: required, match: true},
		{name: "SLICE_DESCRIPTION", kind: typeString, create: allowed, update: true},
		{name: "SLICE_CREATION", kind: typeTime},
		{name: "SLICE_EXPIRATION", kind: typeTime, create: allowed, update: true},
		{name: "SLICE_EXPIRED", kind: typeBoolean, match: true},
		{name: "SLICE_PROJECT_URN", kind: typeURN, create: allowed, match: true},
	},
	rows:   sliceRows,
	create: createSlice,
	update: updateSlice,
}

func sliceRows(c *call, t *tx, yield func(row)) (err error) {
	for _, s := range all[Slice](t, sliceRecords, &err) {
		is, err := s.relationTo(t, c.caller)
		if err != nil {
			return err
		}
		if may(objectSlice, actLookup, is, s.URN) == nil {
			yield(rowOfSlice(s, c.now))
		}
	}
	return err
}

func rowOfSlice(s Slice, now time.Time) row {
	r := s.row("SLICE", now)
	r.values["SLICE_NAME"] = s.URN.Name
	if !s.Project.IsZero() {
		r.values["SLICE_PROJECT_URN"] = s.Project.String()
	}
	return r
}

// row returns the fields that slices and projects share. Their names begin with prefix.
func (g *group) row(prefix string, now time.Time) row {
	v := map[string]xmlrpc.Value{
		prefix + "_URN": g.URN.String(), prefix + "_UID": g.UID, prefix + "_DESCRIPTION": g.Description,
		prefix + "_CREATION": api.FormatTime(g.Created), prefix + "_EXPIRED": g.isExpired(now),
	}
	if !g.Expires.IsZero() {
		v[prefix+"_EXPIRATION"] = api.FormatTime(g.Expires)
	}
	return row{key: g.URN.String(), values: v, sees: private}
}

func createSlice(c *call, f fields) (row, error) {
	project, err := f.urn("SLICE_PROJECT_URN", typeProject)
	if err != nil {
		return row{}, err
	}
	expires, err := f.time("SLICE_EXPIRATION")
	if err != nil {
		return row{}, err
	}
	s, err := c.createSlice(f.text("SLICE_NAME"), project, f.text("SLICE_DESCRIPTION"), expires)
	return rowOfSlice(s, c.now), err
}

// createSlice creates a slice with the caller as LEAD. project and expires may be zero.
func (c *call) createSlice(name string, project urn.URN, description string, expires time.Time) (s Slice, err error) {
	if err := trial.CheckSlice(name); err != nil {
		return s, refuse(Argument, "%v", err)
	}
	u := urn.URN{Authority: c.authority.URN().Authority, Type: urn.Slice, Name: name}
	if !project.IsZero() {
		u.Authority += ":" + project.Name
	}
	c.event.Slice = u
	if expires, err = c.expiry(expires); err != nil {
		return s, err
	}
	err = c.update(func(t *tx) error {
		if err := c.checkProject(t, project); err != nil {
			return err
		}
		n, have := 0, Slice{}
		for key, x := range all[Slice](t, sliceRecords, &err) {
			if key == u.Key() {
				have = x
			}
			if x.roleOf(c.caller) == Lead && !x.isExpired(c.now) {
				n++
			}
		}
		switch {
		case err != nil:
			return err
		case !have.URN.IsZero() && !have.isExpired(c.now):
			return refuse(Duplicate, "the slice %s exists until %s; choose another name", have.URN, api.FormatTime(have.Expires))
		case n >= maxSlices:
			return refuse(Argument, "you have %d slices, the limit; wait until one expires", maxSlices)
		}
		if err := removeSliverInfos(t, u); err != nil { // of an expired slice of that name
			return err
		}
		if s, err = c.authority.newSlice(t, u, project, c.now); err != nil {
			return err
		}
		s.Description, s.Expires, s.Members = description, expires, []Membership{{c.caller, Lead}}
		return put(t, sliceRecords, u.Key(), s)
	})
	return s, err
}

// expiry returns the default for the zero time.
func (c *call) expiry(t time.Time) (time.Time, error) {
	latest := c.now.Add(LongestLease)
	if end := c.authority.Expires(); end.Before(latest) {
		latest = end
	}
	switch {
	case t.IsZero():
		t = c.now.Add(FirstLease).UTC().Truncate(time.Second)
	case !t.After(c.now):
		return t, refuse(Argument, "the expiry %s is in the past", api.FormatTime(t))
	case t.After(latest):
		return t, refuse(Argument, "the expiry %s is too late; the latest is %s", api.FormatTime(t), api.FormatTime(latest))
	}
	return t, nil
}

func (c *call) checkProject(t *tx, project urn.URN) error {
	if project.IsZero() {
		return nil
	}
	p, ok, err := get[Project](t, projects, project.Key())
	switch {
	case err != nil:
		return err
	case !ok:
		return unknown("project urn", project)
	case p.isExpired(c.now):
		return refuse(Argument, "the project %s expired %s", p.URN, api.FormatTime(p.Expires))
	}
	return may(objectProject, actSlices, p.relationTo(c.caller), p.URN)
}

// slice returns a slice that has not expired, if the caller may do the action.
func (c *call) slice(t *tx, name, action string) (s Slice, err error) {
	u, err := parseURN("the slice", name, urn.Slice)
	if err != nil {
		return s, err
	}
	c.event.Slice = u
	s, ok, err := get[Slice](t, sliceRecords, u.Key())
	switch {
	case err != nil:
		return s, err
	case !ok:
		return s, unknown("slice urn", u)
	}
	is, err := s.relationTo(t, c.caller)
	if err == nil {
		err = may(objectSlice, action, is, s.URN)
	}
	if err == nil && s.isExpired(c.now) {
		err = refuse(Argument, "Unknown slice urn: %s expired %s; create it again", s.URN, api.FormatTime(s.Expires))
	}
	return s, err
}

func updateSlice(c *call, name string, f fields) error {
	expires, err := f.time("SLICE_EXPIRATION")
	if err != nil {
		return err
	}
	_, hasDescription := f["SLICE_DESCRIPTION"]
	return c.update(func(t *tx) error {
		s, err := c.slice(t, name, actUpdate)
		if err != nil {
			return err
		}
		if !expires.IsZero() {
			if err := c.renew(&s, expires); err != nil {
				return err
			}
		}
		if hasDescription {
			s.Description = f.text("SLICE_DESCRIPTION")
		}
		return put(t, sliceRecords, s.URN.Key(), s)
	})
}

// renew never shortens a slice, since its credentials are valid until its end.
func (c *call) renew(s *Slice, expires time.Time) error {
	if expires.Before(s.Expires) {
		return refuse(Argument, "the slice expires %s, and it cannot expire earlier", api.FormatTime(s.Expires))
	}
	expires, err := c.expiry(expires)
	s.Expires = expires
	return err
}

func getSliceCredentials(c *call) (xmlrpc.Value, error) {
	text, err := c.sliceCredential(c.target)
	return credentialList(text), err
}

// sliceCredential issues a credential with the privileges of the caller's role.
func (c *call) sliceCredential(name string) (text []byte, err error) {
	var s Slice
	err = c.view(func(t *tx) (err error) {
		s, err = c.slice(t, name, actCredential)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.authority.credentialOf(s, c.caller, s.Expires, c.now)
}
