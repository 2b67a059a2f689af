package authority

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"patchbay/am/urn"
)

// keptExpired is how long the record of a slice remains after its end.
const keptExpired = 30 * 24 * time.Hour

// putSlice writes a slice and its indexes.
func putSlice(t *tx, s Slice) error {
	old, _, err := get[Slice](t, sliceRecords, s.URN.Key())
	if err != nil {
		return err
	}
	return errors.Join(indexSlice(t, old, s), put(t, sliceRecords, s.URN.Key(), s))
}

// indexSlice replaces the indexes of old by those of s. Both may be zero.
func indexSlice(t *tx, old, s Slice) error {
	var err error
	if key := old.URN.Key(); key != "" {
		err = errors.Join(remove(t, slicesByEnd, join(endKey(old.Expires), key)), remove(t, ends, key))
		if !old.Project.IsZero() {
			err = errors.Join(err, remove(t, slicesOfProject, join(old.Project.Key(), key)))
		}
	}
	if key := s.URN.Key(); key != "" {
		err = errors.Join(err, put(t, slicesByEnd, join(endKey(s.Expires), key), nil), put(t, ends, key, s.Expires))
		if !s.Project.IsZero() {
			err = errors.Join(err, put(t, slicesOfProject, join(s.Project.Key(), key), nil))
		}
	}
	return errors.Join(err, indexMembers(t, &old.group, &s.group))
}

// endKey orders times as texts.
func endKey(end time.Time) string { return end.UTC().Format(time.RFC3339) }

// putProject writes a project and its index. It adds a member who newly teaches it to its slices.
func putProject(t *tx, p Project) error {
	old, _, err := get[Project](t, projects, p.URN.Key())
	if err != nil {
		return err
	}
	err = errors.Join(indexMembers(t, &old.group, &p.group), put(t, projects, p.URN.Key(), p))
	isNew := func(m Membership) bool { return isTeacher(m.Role) && !isTeacher(old.roleOf(m.Member)) }
	if !p.ByOperator || !slices.ContainsFunc(p.Members, isNew) {
		return err
	}
	for _, key := range following(t, slicesOfProject, math.MaxInt, p.URN.Key()) {
		s, _, failed := get[Slice](t, sliceRecords, key)
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		s.addTeachers(t, p)
		err = putSlice(t, s)
	}
	return err
}

func removeProject(t *tx, p Project) error {
	return errors.Join(indexMembers(t, &p.group, &group{}), remove(t, projects, p.URN.Key()), remove(t, requests, p.URN.Key()))
}

// indexMembers writes what differs between old and g, which may have 1,000 members.
func indexMembers(t *tx, old, g *group) (err error) {
	b, was := t.Bucket([]byte(memberships)), map[string]Membership{}
	for _, m := range old.Members {
		was[m.Member.Key()] = m
	}
	for _, m := range g.Members {
		key := m.Member.Key()
		if was[key] != m {
			value := string(m.Role)
			if m.Accepted {
				value += acceptedMark
			}
			err = errors.Join(err, b.Put([]byte(join(key, g.URN.Key())), []byte(value)))
		}
		delete(was, key)
	}
	for key := range was {
		err = errors.Join(err, remove(t, memberships, join(key, old.URN.Key())))
	}
	return err
}

const acceptedMark = "*"

// roleIn returns the role of a member in a slice or a project; "" if they have none.
func roleIn(t *tx, member urn.URN, group string) (role Role, isAccepted bool) {
	text, isAccepted := strings.CutSuffix(string(t.Bucket([]byte(memberships)).Get([]byte(join(member.Key(), group)))), acceptedMark)
	return Role(text), isAccepted
}

// groupsOf returns the keys of the slices, or of the projects, with the member.
func groupsOf(t *tx, member urn.URN, b bucket) []string {
	return slices.DeleteFunc(following(t, memberships, maxRows, member.Key()), func(key string) bool { return groupBucket(key) != b })
}

// groupBucket returns the bucket of the slice or project with the key.
func groupBucket(key string) bucket {
	if u, err := urn.Parse(key); err == nil && u.Type == urn.Project {
		return projects
	}
	return sliceRecords
}

func putKey(t *tx, k Key) error {
	return errors.Join(put(t, keysOfMember, join(k.Member.Key(), k.ID), nil), put(t, keys, k.ID, k))
}

func removeKey(t *tx, k Key) error {
	return errors.Join(remove(t, keysOfMember, join(k.Member.Key(), k.ID)), remove(t, keys, k.ID))
}

// keysOf returns the SSH keys of a member, of which there are few.
func keysOf(t *tx, member urn.URN) (list []Key, err error) {
	for _, id := range following(t, keysOfMember, maxRows, member.Key()) {
		k, ok, err := get[Key](t, keys, id)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, k)
		}
	}
	return list, nil
}

func putSliverInfo(t *tx, x SliverInfo) error {
	slice, sliver := x.Slice.Key(), x.URN.Key()
	return errors.Join(put(t, sliversOf, join(x.Creator.Key(), slice, sliver), nil), put(t, sliverInfos, join(slice, sliver), x))
}

func removeSliverInfo(t *tx, x SliverInfo) error {
	slice, sliver := x.Slice.Key(), x.URN.Key()
	return errors.Join(remove(t, sliversOf, join(x.Creator.Key(), slice, sliver)), remove(t, sliverInfos, join(slice, sliver)))
}

// removeAllSliverInfos removes the records of all slivers of a slice.
func removeAllSliverInfos(t *tx, slice string) error {
	for _, sliver := range following(t, sliverInfos, maxSliverInfos, slice) {
		x, _, err := get[SliverInfo](t, sliverInfos, join(slice, sliver))
		if err == nil {
			err = removeSliverInfo(t, x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeSlice removes an expired slice.
func removeSlice(t *tx, key string) error {
	s, _, err := get[Slice](t, sliceRecords, key)
	if err != nil {
		return err
	}
	return errors.Join(indexSlice(t, s, Slice{}), removeAllSliverInfos(t, key), remove(t, sliceRecords, key), remove(t, certificates, key))
}

// removeOldSlices removes a few of the slices that ended long ago. Each new slice calls it, so they
// do not accumulate.
func removeOldSlices(t *tx, now time.Time) error {
	const most = 2
	c := t.Bucket([]byte(slicesByEnd)).Cursor()
	var old []string
	for key, _ := c.First(); key != nil && len(old) < most; key, _ = c.Next() {
		end, slice, _ := strings.Cut(string(key), "\x00")
		if end >= endKey(now.Add(-keptExpired)) {
			break
		}
		old = append(old, slice)
	}
	for _, slice := range old {
		if err := removeSlice(t, slice); err != nil {
			return err
		}
	}
	return nil
}

// migrate makes the indexes of a database of an earlier version. In such a database,
//   - the keys of sliver records are sliver URNs,
//   - the names of projects are case-sensitive; of two that are equal now, the later one gets
//     another name,
//   - the first member of a slice or a project is the one who has created it.
func migrate(t *tx) error {
	var oldProjects, oldSlices, oldKeys, oldSliverInfos snapshot
	err := errors.Join(oldProjects.addAll(t, projects, math.MaxInt), oldSlices.addAll(t, sliceRecords, math.MaxInt),
		oldKeys.addAll(t, keys, math.MaxInt), oldSliverInfos.addAll(t, sliverInfos, math.MaxInt))
	if err != nil {
		return err
	}
	renamed, err := migrateProjects(t, oldProjects)
	if err != nil {
		return err
	}
	for key, s := range each[Slice](oldSlices, &err) {
		if u, ok := renamed[s.Project]; ok {
			s.Project = u
		}
		s.acceptFirst()
		if err := errors.Join(indexSlice(t, Slice{}, s), put(t, sliceRecords, key, s)); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for _, k := range each[Key](oldKeys, &err) {
		if err := putKey(t, k); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for key, x := range each[SliverInfo](oldSliverInfos, &err) {
		if err := errors.Join(remove(t, sliverInfos, key), putSliverInfo(t, x)); err != nil {
			return err
		}
	}
	return err
}

// migrateProjects replaces the records of projects, and returns the new URNs of those that it
// renames.
func migrateProjects(t *tx, records snapshot) (renamed map[urn.URN]urn.URN, err error) {
	var list []Project
	for key, p := range each[Project](records, &err) {
		list = append(list, p)
		if err := remove(t, projects, key); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b Project) int { return a.Created.Compare(b.Created) })
	renamed = map[urn.URN]urn.URN{}
	for _, p := range list {
		former := p.URN
		for n := 2; t.Bucket([]byte(projects)).Get([]byte(p.URN.Key())) != nil; n++ {
			p.URN.Name = fmt.Sprintf("%.28s-%d", former.Name, n)
			renamed[former] = p.URN
		}
		p.acceptFirst()
		if err := putProject(t, p); err != nil {
			return nil, err
		}
	}
	return renamed, nil
}

// acceptFirst makes the first member, who has created the group, a member who has accepted it.
func (g *group) acceptFirst() {
	if len(g.Members) > 0 && g.Members[0].Role == Lead {
		g.Members[0].Accepted = true
	}
}
