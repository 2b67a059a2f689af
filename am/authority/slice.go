package authority

import (
	"time"

	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

var sliceObject = object{
	name: objectSlice,
	fields: []field{
		{name: "SLICE_URN", kind: typeURN, match: true},
		{name: "SLICE_UID", kind: typeUID, match: true},
		{name: "SLICE_NAME", kind: typeName, create: required, match: true},
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

func sliceRows(c *call, match conditions, yield func(row)) error {
	var list snapshot
	err := c.view(func(t *tx) error {
		return c.visibleSlices(t, match, "SLICE_URN", objectSlice, func(key string) error { return list.add(t, sliceRecords, key) })
	})
	if err != nil {
		return err
	}
	for _, s := range each[Slice](list, &err) {
		yield(rowOfSlice(s, c.now))
	}
	return err
}

// visibleSlices calls yield with the keys of the slices of which the caller may look up the object.
// If match names slices in the field, it calls yield only with these.
func (c *call) visibleSlices(t *tx, match conditions, field, object string, yield func(key string) error) error {
	wanted, isLimited := match.only(field)
	related := map[string]relation{}
	for _, group := range following(t, memberships, maxRows, c.caller.Key()) {
		role, _ := roleIn(t, c.caller, group)
		if groupBucket(group) == sliceRecords {
			related[group] |= relationOfRole[role]
		} else if is := relationOfProjectRole[role]; is&whoMay(object, actLookup) != 0 {
			for _, key := range following(t, slicesOfProject, maxRows+1, group) {
				related[key] |= is
			}
		}
	}
	for key, is := range related {
		if is&whoMay(object, actLookup) == 0 || isLimited && !wanted[key] {
			continue
		}
		if err := yield(key); err != nil {
			return err
		}
	}
	return nil
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
	project, err := f.urn("SLICE_PROJECT_URN", urn.Project)
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

// createSlice creates a slice with the caller as LEAD, and those who teach its project as ADMIN. project and expires may be zero.
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
		p, err := c.useProject(t, project)
		if err != nil {
			return err
		}
		if !p.URN.IsZero() { // spelled as the project was created
			u.Authority, project = c.authority.URN().Authority+":"+p.URN.Name, p.URN
		}
		if err := c.checkName(t, u); err != nil {
			return err
		}
		if err := c.makeRoom(t); err != nil {
			return err
		}
		if s, err = c.authority.newSlice(t, u, project, c.now); err != nil {
			return err
		}
		s.Description, s.Expires, s.Members = description, expires, []Membership{{Member: c.caller, Role: Lead, Accepted: true}}
		s.addTeachers(t, p)
		return putSlice(t, s)
	})
	return s, err
}

// checkName fails if the slice u exists. It removes the sliver records of an expired slice of that
// name.
func (c *call) checkName(t *tx, u urn.URN) error {
	end, ok, err := get[time.Time](t, ends, u.Key())
	if err == nil && ok && c.now.Before(end) {
		err = refuse(Duplicate, "the slice %s exists until %s; choose another name", u, api.FormatTime(end))
	}
	if err != nil {
		return err
	}
	return removeAllSliverInfos(t, u.Key())
}

// makeRoom fails if the caller leads too many slices. It removes a few old slices, and a few expired
// ones of the caller if these are too many.
func (c *call) makeRoom(t *tx) error {
	const most = 2
	n, expired := 0, 0
	for _, key := range groupsOf(t, c.caller, sliceRecords) {
		if !leads(t, c.caller, key) {
			continue
		}
		end, _, err := get[time.Time](t, ends, key)
		if err != nil {
			return err
		}
		if c.now.Before(end) {
			n++
		} else if expired++; expired > maxSlices && expired <= maxSlices+most {
			if err := removeSlice(t, key); err != nil {
				return err
			}
		}
	}
	if n >= maxSlices {
		return refuse(Argument, "you have %d slices, the limit; wait until one expires", maxSlices)
	}
	return removeOldSlices(t, c.now)
}

// expiry checks the expiry t of a slice and returns it. For the zero time, it returns the default.
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

// useProject checks that the caller may create a slice in the project. With its first slice, a member
// accepts a project.
func (c *call) useProject(t *tx, project urn.URN) (p Project, err error) {
	if project.IsZero() {
		return p, nil
	}
	p, ok, err := get[Project](t, projects, project.Key())
	switch {
	case err != nil:
		return p, err
	case !ok:
		return p, unknown("project urn", project)
	case p.isExpired(c.now):
		return p, refuse(Argument, "the project %s expired %s", p.URN, api.FormatTime(p.Expires))
	}
	if err := may(objectProject, actSlices, p.relationTo(c.caller), p.URN); err != nil || !p.accept(c.caller) {
		return p, err
	}
	return p, putProject(t, p)
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
	err = may(objectSlice, action, s.relationTo(t, c.caller), s.URN)
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
		return putSlice(t, s)
	})
}

// renew sets the expiry of a slice, which the caller must write. It never shortens a slice, since
// its credentials are valid until its end.
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

// sliceCredential issues a credential with the privileges of the caller's role. With the first one,
// a member accepts a slice.
func (c *call) sliceCredential(name string) (text []byte, err error) {
	var s Slice
	err = c.view(func(t *tx) (err error) {
		s, err = c.slice(t, name, actCredential)
		return err
	})
	if err == nil && s.accept(c.caller) {
		err = c.update(func(t *tx) (err error) {
			if s, err = c.slice(t, name, actCredential); err == nil && s.accept(c.caller) {
				err = putSlice(t, s)
			}
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return c.authority.credentialOf(s, c.caller, s.Expires, c.now)
}
