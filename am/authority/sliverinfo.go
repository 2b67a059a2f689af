package authority

import (
	"time"

	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
)

var sliverInfoObject = object{
	name: objectSliverInfo,
	fields: []field{
		{name: "SLIVER_INFO_URN", kind: typeURN, create: required, match: true},
		{name: "SLIVER_INFO_SLICE_URN", kind: typeURN, create: required, match: true},
		{name: "SLIVER_INFO_AGGREGATE_URN", kind: typeURN, create: required, match: true},
		{name: "SLIVER_INFO_CREATOR_URN", kind: typeURN, create: required, match: true},
		{name: "SLIVER_INFO_CREATION", kind: typeTime, create: allowed},
		{name: "SLIVER_INFO_EXPIRATION", kind: typeTime, create: allowed, update: true},
	},
	rows:   sliverInfoRows,
	create: createSliverInfo,
	update: updateSliverInfo,
	remove: deleteSliverInfo,
}

// sliverInfoRows yields the recorded slivers of the slices that the caller may see, and the slivers
// at the site's aggregate, which are never recorded.
func sliverInfoRows(c *call, match conditions, yield func(row)) error {
	var list snapshot
	var visible []string
	err := c.view(func(t *tx) error {
		return c.visibleSlices(t, match, "SLIVER_INFO_SLICE_URN", objectSliverInfo, func(slice string) error {
			visible = append(visible, slice)
			for _, sliver := range following(t, sliverInfos, maxSliverInfos, slice) {
				if err := list.add(t, sliverInfos, join(slice, sliver)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, slice := range visible {
		u, err := urn.Parse(slice)
		if err != nil {
			return err
		}
		slivers, err := c.config.Slivers(u)
		if err != nil {
			return err
		}
		for i := range slivers {
			if x := &slivers[i]; x.Live(c.now) {
				yield(rowOfSliverInfo(SliverInfo{x.URN, x.Slice, c.config.Manager, x.Creator, x.Created, x.Expires}))
			}
		}
	}
	// The answer has one record of a sliver. If there are several, in different slices, that of the caller
	// counts, or else the first: others may have recorded the sliver, too.
	var order []string
	records := map[string]SliverInfo{}
	for _, x := range each[SliverInfo](list, &err) {
		key := x.URN.Key()
		was, isTwice := records[key]
		if !isTwice {
			order = append(order, key)
		}
		if !isTwice || x.Creator.Equal(c.caller) && !was.Creator.Equal(c.caller) {
			records[key] = x
		}
	}
	for _, key := range order {
		yield(rowOfSliverInfo(records[key]))
	}
	return err
}

func rowOfSliverInfo(x SliverInfo) row {
	v := map[string]xmlrpc.Value{
		"SLIVER_INFO_URN": x.URN.String(), "SLIVER_INFO_SLICE_URN": x.Slice.String(), "SLIVER_INFO_AGGREGATE_URN": x.Aggregate.String(),
		"SLIVER_INFO_CREATOR_URN": x.Creator.String(), "SLIVER_INFO_CREATION": api.FormatTime(x.Created),
	}
	if !x.Expires.IsZero() {
		v["SLIVER_INFO_EXPIRATION"] = api.FormatTime(x.Expires)
	}
	return row{key: x.URN.String(), values: v, sees: private}
}

// isOwn reports whether a sliver is at the site's aggregate.
func (c *call) isOwn(u urn.URN) bool {
	return urn.Lower(u.Authority) == urn.Lower(c.config.Manager.Authority)
}

// createSliverInfo records a sliver with the caller as its creator. Records of one sliver in several
// slices do not concern each other, so nobody can take a sliver's place.
func createSliverInfo(c *call, f fields) (r row, err error) {
	var x SliverInfo
	for _, field := range []struct {
		name, kind string
		value      *urn.URN
	}{
		{"SLIVER_INFO_URN", "", &x.URN}, {"SLIVER_INFO_SLICE_URN", urn.Slice, &x.Slice},
		{"SLIVER_INFO_AGGREGATE_URN", urn.Authority, &x.Aggregate}, {"SLIVER_INFO_CREATOR_URN", urn.User, &x.Creator},
	} {
		if *field.value, err = f.urn(field.name, field.kind); err != nil {
			return r, err
		}
		if field.value.IsZero() {
			return r, refuse(Argument, "%s is empty", field.name)
		}
	}
	x.Creator = c.caller
	if x.Created, err = f.time("SLIVER_INFO_CREATION"); err != nil {
		return r, err
	}
	if x.Created.IsZero() {
		x.Created = c.now.UTC().Truncate(time.Second)
	}
	if x.Expires, err = f.time("SLIVER_INFO_EXPIRATION"); err != nil {
		return r, err
	}
	err = c.update(func(t *tx) error {
		s, err := c.slice(t, x.Slice.String(), actLookup)
		if err == nil {
			err = may(objectSliverInfo, actCreate, s.group.relationTo(c.caller), s.URN)
		}
		if err != nil || c.isOwn(x.URN) {
			return err
		}
		have, ok, err := get[SliverInfo](t, sliverInfos, join(s.URN.Key(), x.URN.Key()))
		switch {
		case err != nil:
			return err
		case ok:
			x.Creator = have.Creator
		case len(following(t, sliverInfos, maxSliverInfos, s.URN.Key())) == maxSliverInfos:
			return refuse(Argument, "%d slivers are recorded for the slice, the limit", maxSliverInfos)
		case len(following(t, sliversOf, maxReported, c.caller.Key())) == maxReported:
			return refuse(Argument, "you have recorded %d slivers, the limit; delete the records of slivers that have gone", maxReported)
		}
		return putSliverInfo(t, x)
	})
	return rowOfSliverInfo(x), err
}

// changeSliverInfo passes the records of a sliver in the slices of the caller to f, in a
// transaction, if the caller may do the action. It does nothing for slivers of the site's aggregate.
func (c *call) changeSliverInfo(name, action string, f func(*tx, SliverInfo) error) error {
	u, err := parseURN("the sliver", name, "")
	if err != nil || c.isOwn(u) {
		return err
	}
	return c.update(func(t *tx) error {
		refused, isChanged := error(unknown("sliver urn", u)), false
		for _, slice := range groupsOf(t, c.caller, sliceRecords) {
			x, ok, err := get[SliverInfo](t, sliverInfos, join(slice, u.Key()))
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			role, _ := roleIn(t, c.caller, slice)
			if err := may(objectSliverInfo, action, relationOfRole[role], x.Slice); err != nil {
				refused = err
				continue
			}
			if err := f(t, x); err != nil {
				return err
			}
			isChanged = true
		}
		if !isChanged {
			return refused
		}
		return nil
	})
}

func updateSliverInfo(c *call, name string, f fields) error {
	expires, err := f.time("SLIVER_INFO_EXPIRATION")
	if err != nil {
		return err
	}
	return c.changeSliverInfo(name, actUpdate, func(t *tx, x SliverInfo) error {
		if !expires.IsZero() {
			x.Expires = expires
		}
		return putSliverInfo(t, x)
	})
}

func deleteSliverInfo(c *call, name string) error {
	return c.changeSliverInfo(name, actDelete, removeSliverInfo)
}
