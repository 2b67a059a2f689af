package service

import (
	"bytes"
	"context"
	"errors"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/credentials"
)

const (
	// maxDefinitions limits the documents of a slice that only define.
	maxDefinitions = 32
	// maxDefinitionBytes limits them together, in bytes.
	maxDefinitionBytes = 512 << 10
)

// define stores a document whose templates only define what later requests of the slice refer to.
// It stores nothing for a request without templates. It sets a.definedUntil, up to which the slice keeps all of
// its definitions.
func (a *attempt) define(v *store.View, cs *store.ChangeSet) error {
	if len(a.request.Expanded) == 0 {
		return nil
	}
	if err := countChange(cs, v, a.slice); err != nil {
		return err
	}
	rec := cs.Slices[len(cs.Slices)-1] // which countChange has added
	now := v.Now().UTC()
	if end := earliest(now.Add(a.cfg.Leases.ProvisionedMax), a.until); end.After(rec.DefinedUntil) {
		rec.DefinedUntil = end
	}
	isNew, size := true, a.document.Bytes
	for _, id := range rec.Definitions {
		d, _, err := v.Document(id)
		if err != nil {
			return err
		}
		size += d.Bytes
		isNew = isNew && !bytes.Equal(d.Text, a.document.Text)
	}
	if isNew {
		limit, _ := a.cfg.Reading.Limits.PerSlice()
		if limit = min(limit/2, maxDefinitionBytes); len(rec.Definitions) == maxDefinitions || size > limit {
			return am.Errorf(am.TooBig, "the requests of one slice that only define may be %d, with %d bytes together; Delete the slice, and put the definitions into fewer requests", maxDefinitions, limit).About(a.slice)
		}
		a.document.Received = now
		rec.Definitions = append(rec.Definitions, a.document.ID)
		cs.PutDocument(a.document)
	}
	a.definedUntil = rec.DefinedUntil
	cs.PutSlice(rec)
	journal(cs, v, a.grant, a.options.Call, a.event, "", a.slice, nil)
	return nil
}

// deleteDefinitions deletes the definitions of a slice without slivers. It returns none if there
// are no definitions.
func (s *Service) deleteDefinitions(ctx context.Context, g credentials.Grant, t Targets, c Call, none error) (Outcome, error) {
	out := Outcome{Slice: t.Slice}
	err := s.commitUrgent(ctx, g, t.Slice, func(v *store.View) (cs store.ChangeSet, err error) {
		out.Notices = nil
		if _, err := checkRight(v, g, t.Slice); err != nil {
			return cs, err
		}
		live, err := liveSlivers(v, t.Slice)
		if err != nil {
			return cs, err
		}
		rec, _, err := v.Slice(t.Slice)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return cs, err
		}
		if len(live) > 0 || len(rec.Definitions) == 0 {
			return cs, none
		}
		out.Notices = []string{"the slice had no slivers; what its templates define is forgotten"}
		journal(&cs, v, g, c, "DeleteDefinitions", "", t.Slice, nil)
		return cs, lease.DropDefinitions(v, &cs, t.Slice)
	})
	return out, err
}
