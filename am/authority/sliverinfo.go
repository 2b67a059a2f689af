package authority

import (
	"time"

	"patchbay/am/api"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
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

// sliverInfoRows adds the slivers at the site's aggregate, which are never recorded.
func sliverInfoRows(c *call, t *tx, yield func(row)) (err error) {
	visible := map[string]bool{}
	for _, s := range all[Slice](t, sliceRecords, &err) {
		is, err := s.relationTo(t, c.caller)
		if err != nil {
			return err
		}
		if may(objectSliverInfo, actLookup, is, s.URN) != nil {
			continue
		}
		visible[s.URN.Key()] = true
		slivers, err := c.config.Slivers(s.URN)
		if err != nil {
			return err
		}
		for i := range slivers {
			x := &slivers[i]
			yield(rowOfSliverInfo(SliverInfo{x.URN, s.URN, c.config.Manager, x.Creator, x.Created, x.Expires}))
		}
	}
	if err != nil {
		return err
	}
	for _, x := range all[SliverInfo](t, sliverInfos, &err) {
		if visible[x.Slice.Key()] {
			yield(rowOfSliverInfo(x))
		}
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

func createSliverInfo(c *call, f fields) (r row, err error) {
	var x SliverInfo
	for _, to := range []struct {
		name, kind string
		to         *urn.URN
	}{
		{"SLIVER_INFO_URN", "", &x.URN}, {"SLIVER_INFO_SLICE_URN", urn.Slice, &x.Slice},
		{"SLIVER_INFO_AGGREGATE_URN", urn.Authority, &x.Aggregate}, {"SLIVER_INFO_CREATOR_URN", urn.User, &x.Creator},
	} {
		if *to.to, err = f.urn(to.name, to.kind); err != nil {
			return r, err
		}
		if to.to.IsZero() {
			return r, refuse(Argument, "%s is empty", to.name)
		}
	}
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
		if have, ok, err := get[SliverInfo](t, sliverInfos, x.URN.Key()); err != nil {
			return err
		} else if ok && !have.Slice.Equal(x.Slice) {
			return refuse(Duplicate, "%s is recorded for another slice", x.URN)
		}
		n := 0
		for _, y := range all[SliverInfo](t, sliverInfos, &err) {
			if y.Slice.Equal(x.Slice) {
				n++
			}
		}
		if err == nil && n >= maxSliverInfos {
			err = refuse(Argument, "%d slivers are recorded for the slice, the limit", maxSliverInfos)
		}
		if err != nil {
			return err
		}
		return put(t, sliverInfos, x.URN.Key(), x)
	})
	return rowOfSliverInfo(x), err
}

// changeSliverInfo passes the record to f in a transaction, if the caller may do the action. It
// does nothing for slivers of the site's aggregate.
func (c *call) changeSliverInfo(name, action string, f func(*tx, SliverInfo) error) error {
	u, err := parseURN("the sliver", name, "")
	if err != nil || c.isOwn(u) {
		return err
	}
	return c.update(func(t *tx) error {
		x, ok, err := get[SliverInfo](t, sliverInfos, u.Key())
		if err != nil {
			return err
		}
		if !ok {
			return unknown("sliver urn", u)
		}
		s, _, err := get[Slice](t, sliceRecords, x.Slice.Key())
		if err == nil {
			err = may(objectSliverInfo, action, s.group.relationTo(c.caller), x.Slice)
		}
		if err != nil {
			return err
		}
		return f(t, x)
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
		return put(t, sliverInfos, x.URN.Key(), x)
	})
}

func deleteSliverInfo(c *call, name string) error {
	return c.changeSliverInfo(name, actDelete, func(t *tx, x SliverInfo) error { return remove(t, sliverInfos, x.URN.Key()) })
}

func removeSliverInfos(t *tx, slice urn.URN) (err error) {
	var old []string
	for key, x := range all[SliverInfo](t, sliverInfos, &err) {
		if x.Slice.Equal(slice) {
			old = append(old, key)
		}
	}
	for _, key := range old {
		if err == nil {
			err = remove(t, sliverInfos, key)
		}
	}
	return err
}
