package step

import (
	"reflect"
	"slices"
)

// Change returns the steps of a node after a change of its request, and for each of them the index
// of the earlier step whose result it keeps; -1 if it must run. A step keeps its result if it is
// the same as before. A step with Again must be the same in everything that it knows of other nodes,
// and runs again if moreNodes is set. Other steps stay as they were carried out.
func Change(before, now []Step, moreNodes bool) (steps []Step, from []int) {
	used := make([]bool, len(before))
	find := func(same func(was *Step) bool) int {
		for i := range before {
			if !used[i] && same(&before[i]) {
				used[i] = true
				return i
			}
		}
		return -1
	}
	for n := range now {
		s := now[n]
		plain := s.withoutNodes()
		i := find(func(was *Step) bool { return reflect.DeepEqual(was.withoutNodes(), plain) })
		switch {
		case i < 0:
		case s.Again && (moreNodes || !reflect.DeepEqual(before[i].withRule(0, true), s)):
			s.Run, i = before[i].Run+1, -1
		default:
			s = before[i].withRule(before[i].Run, s.Again)
		}
		steps, from = append(steps, s), append(from, i)
	}
	return steps, from
}

func (s Step) withRule(run int, again bool) Step {
	s.Run, s.Again = run, again
	return s
}

// withoutNodes returns the step without Run, the rule Again and what a playbook knows of all nodes.
func (s Step) withoutNodes() Step {
	s.Run, s.Again = 0, false
	if i := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == playInventory }); i >= 0 && s.Script == playScript {
		s.Files = slices.Delete(slices.Clone(s.Files), i, i+1)
	}
	return s
}

// Keep returns, for each of a provider's new steps, the index of the earlier step with the same text,
// whose result it keeps; -1 for a step that must run. Equal steps keep their order.
func Keep[T comparable](before, now []T) (from []int) {
	places := map[T][]int{}
	for i, x := range before {
		places[x] = append(places[x], i)
	}
	for _, x := range now {
		at := -1
		if list := places[x]; len(list) > 0 {
			at, places[x] = list[0], list[1:]
		}
		from = append(from, at)
	}
	return from
}
