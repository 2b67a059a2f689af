package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"patchbay/inventory/provider"
	setup "patchbay/rspec/step"
)

type update = provider.CallUpdate[provider.Requested]

// set accepts the updates one after the other. If the settings make the call hang or die at an
// update, set first stores the earlier updates.
func (s *simulation) set(updates []update, noop bool) object {
	st, err := openState(s.state, !noop)
	if err != nil {
		return provider.Failure(err)
	}
	defer st.close()
	now := s.now()
	if err := s.seed(st); err != nil {
		return provider.Failure(err)
	}
	changes := []object{}
	for _, u := range updates {
		c, b, err := s.accept(st, u, now, noop)
		if errors.As(err, new(*provider.Error)) {
			c = provider.Failure(err) // set still accepts the others
		} else if err != nil {
			return provider.Failure(err)
		}
		if c != nil {
			c["name"] = u.Name
			changes = append(changes, c)
		}
		if b != hang && b != die {
			continue
		}
		if !noop {
			if err := st.save(now); err != nil {
				return provider.Failure(err)
			}
		}
		if b == die {
			s.die()
		}
		st.close() // so that gets still work
		s.hang()
	}
	if !noop {
		if err := st.save(now); err != nil {
			return provider.Failure(err)
		}
	}
	return object{"changes": changes}
}

// seed sets st.seed to the seed in the settings, unless that is 0. Otherwise the seed of the log stays. If there is
// neither, seed adds a new one to the log.
func (s *simulation) seed(st *state) error {
	switch {
	case s.Seed != 0:
		st.seed = s.Seed
	case st.seed == 0:
		return st.append(line{Seed: rand.Uint64() | 1})
	}
	return nil
}

// refusal returns the error of a simulated refusal. An empty kind means forbidden.
func refusal(component string, op operation, kind provider.Kind) error {
	switch kind {
	case provider.Unknown:
		return provider.Refuse(kind, "there is no %s; this refusal is simulated", component)
	case provider.Unsupported:
		return provider.Refuse(kind, "%s does not support this request; this refusal is simulated", component)
	case provider.Failed:
		return provider.Refuse(kind, "%s cannot %s now; this refusal is simulated", component, failedAction[op])
	}
	return provider.Refuse(provider.Forbidden, "%s is not permitted to %s; this refusal is simulated", component, failedAction[op])
}

// accept applies one update, and appends the result to the log, also in a dry run, whose caller does not save the
// log. It returns the entry for the answer, and the behaviour with which the whole call ends. The entry is nil if
// there is nothing to do. A dry run hangs or dies only if the settings configure this for the operation probe.
func (s *simulation) accept(st *state, u update, now time.Time, noop bool) (object, behaviour, error) {
	old := st.nodes[u.Name]
	if old != nil && old.isGone(now) {
		old = nil
	}
	n, ops, err := next(old, u)
	if err != nil || len(ops) == 0 {
		return nil, normal, err
	}
	h := st.histories[n.Component]
	h.Component = n.Component
	r := newRandom(st.seed, h.Component, h.Draws)
	b, kind := s.chooseBehaviour(h, ops[0], r)
	lasts := s.duration(r, b, ops...)
	h.Draws++
	draw := func(kind string) (time.Duration, behaviour) {
		op := opExecute
		if kind == setup.Install {
			op = opInstall
		}
		b, _ := s.configuredBehaviour(h, op)
		return s.duration(r, b, op), b
	}
	end, misbehaves := b, b != normal // end is for the whole call
	if noop {
		end = normal
		if c, ok := s.probeBehaviour(n.Component); ok {
			b, end, kind = c.Behaviour, c.Behaviour, c.Kind
		}
	}
	if b != refuse && b != hang {
		if old == nil {
			st.place(n, now)
		}
		misbehaves = n.start(old, ops[0], b, now, lasts, draw) || misbehaves
	}
	if misbehaves {
		h.Bad++
	}
	if err := st.append(line{Component: &h}); err != nil {
		return nil, end, err
	}
	switch b {
	case refuse:
		return nil, end, refusal(n.Component, ops[0], kind)
	case hang:
		return nil, end, nil
	case lose:
		n.LostAt = n.settledAt().Add(time.Duration(s.LoseAfter))
	}
	return changed(old, n, now), end, st.append(line{Node: n})
}

// start starts the operation op. The parameter previous is the node before the update, or nil.
// If an operation of previous still runs, op begins at the end of that operation; a removal
// begins at once. The result reports whether a step that begins is configured to be slow or to
// fail.
func (n *node) start(previous *node, op operation, b behaviour, now time.Time, length time.Duration, draw draw) (misbehaves bool) {
	if previous != nil && previous.Fails != "" && previous.Doing == opMake && op != opRemove {
		return false // a node that could not be created stays failed
	}
	begins := now
	if previous != nil {
		n.Steps = slices.Clone(n.Steps)
		begins, misbehaves = n.endSteps(previous, op, now, draw)
		n.repeat(previous, op, now)
	}
	n.Doing, n.ReadyAt, n.Fails = op, begins.Add(length), ""
	if b == fail {
		n.Fails = fmt.Sprintf("%s could not %s; this failure is simulated", n.Component, failedAction[op])
	}
	return n.runPlan(draw) || misbehaves
}

// endSteps makes the steps fail that the operation op, or a lower stage, ends. Before it
// switches off or removes a node that is up, it runs the steps of that operation. It returns
// the time at which op begins.
func (n *node) endSteps(previous *node, op operation, now time.Time, draw draw) (begins time.Time, misbehaves bool) {
	begins = now
	if previous.ReadyAt.After(now) && op != opRemove {
		begins = previous.ReadyAt
	}
	if n.stage() < previous.stage() {
		n.interrupt(now, n.stage(), "it was ended before it was done")
	}
	if previous.Power == provider.On && previous.Fails == "" && !previous.ReadyAt.After(begins) {
		switch op {
		case opStop:
			begins, misbehaves = n.runOperation(setup.Stop, begins, draw)
		case opRemove:
			begins, misbehaves = n.runOperation(setup.Uninstall, begins, draw)
		}
	}
	if op == opStop || op == opRestart || op == opRemove {
		n.interrupt(begins, -1, "the node was switched off, restarted or removed before it was done")
	}
	return begins, misbehaves
}

// place assigns a port and the lowest free place to a new node. The first node of a component
// has port 22.
func (s *state) place(n *node, now time.Time) {
	if s.places == nil {
		s.places, s.nodesOn = map[int]bool{}, map[string]int{}
		for _, other := range s.nodes {
			if !other.isGone(now) {
				s.places[other.Place] = true
				s.nodesOn[other.Component]++
			}
		}
	}
	for n.Place = s.lowest; s.places[n.Place]; n.Place++ {
	}
	s.places[n.Place], s.lowest = true, n.Place+1
	n.Port = 22
	if s.nodesOn[n.Component]++; s.nodesOn[n.Component] > 1 {
		n.Port = 20000 + n.Place%40000
	}
}

// next returns the requested node, and the operations that lead to it, the main one first. The
// parameter current is nil if the node does not exist. If there is nothing to do, next returns
// no operations. The error is a *provider.Error.
func next(current *node, u update) (*node, []operation, error) {
	if u.Name == "" {
		return nil, nil, provider.Refuse(provider.Failed, "a node needs a name")
	}
	w := u.Should
	if w.SetupStage != nil {
		if stage, err := strconv.Atoi(*w.SetupStage); err != nil || stage < -1 {
			return nil, nil, provider.Refuse(provider.Failed, "setup_stage is %.80q and must be a whole number of at least -1", *w.SetupStage)
		}
	}
	if w.Ensure != nil && *w.Ensure == provider.Absent {
		if current == nil || current.Doing == opRemove && current.Fails == "" {
			return nil, nil, nil
		}
		n := *current
		assign(&n.SetupStage, w.SetupStage)
		return &n, []operation{opRemove}, nil
	}
	if current != nil && current.Doing == opRemove {
		return nil, nil, provider.Refuse(provider.Failed, "node %s is being removed", u.Name)
	}
	if current == nil {
		return newNode(u)
	}
	if differs(w.Component, current.Component) || differs(w.SliverType, current.SliverType) || differs(w.Image, current.Image) {
		return nil, nil, provider.Refuse(provider.Failed, "component, sliver_type and image of node %s cannot be changed; remove it first", u.Name)
	}
	if renames(w.ClientID, current.ClientID) || renames(w.SliceURN, current.SliceURN) || renames(w.SliverURN, current.SliverURN) {
		return nil, nil, provider.Refuse(provider.Failed, "client_id, slice_urn and sliver_urn of node %s cannot be changed; remove it first", u.Name)
	}
	return change(current, u)
}

// change returns an existing node with the requested changes, and the operations that they need.
func change(current *node, u update) (*node, []operation, error) {
	w, n := u.Should, *current
	var ops []operation
	n.assign(w)
	if differs(w.ChangeSerial, current.ChangeSerial) {
		items := []string{}
		assign(&items, w.Setup)
		if err := n.changeSteps(items); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case differs(w.Power, current.Power) && *w.Power == provider.On:
		ops = append(ops, opStart)
	case differs(w.Power, current.Power):
		ops = append(ops, opStop)
	case differs(w.RestartSerial, current.RestartSerial) && current.Power == provider.On:
		ops = append(ops, opRestart)
	}
	if !slices.Equal(n.Users, current.Users) {
		ops = append(ops, opUsers)
	}
	if len(ops) == 0 && changesOther(u.Should, current) {
		ops = append(ops, opUsers) // other small changes take as long as a change of users
	}
	return &n, ops, nil
}

// newNode returns a new node as requested, and the operations that create it.
func newNode(u update) (*node, []operation, error) {
	w := u.Should
	if w.Ensure == nil {
		return nil, nil, provider.Refuse(provider.Unknown, "there is no node %s", u.Name)
	}
	n := &node{Name: u.Name, Power: provider.On}
	n.assign(w)
	if n.Component == "" {
		return nil, nil, provider.Refuse(provider.Failed, "node %s needs a component", u.Name)
	}
	if w.Setup != nil {
		var err error
		if n.Steps, err = parseSteps(*w.Setup); err != nil {
			return nil, nil, err
		}
	}
	if n.Power == provider.On {
		return n, []operation{opMake, opStart}, nil
	}
	return n, []operation{opMake}, nil
}

// changesOther reports whether the request changes an attribute that needs no operation of its own.
func changesOther(w provider.Requested, current *node) bool {
	return differs(w.Hostname, current.Hostname) || differs(w.ClientID, current.ClientID) ||
		differs(w.SliceURN, current.SliceURN) || differs(w.SliverURN, current.SliverURN) || differs(w.RestartSerial, current.RestartSerial) || differs(w.SetupStage, current.SetupStage) || differs(w.ChangeSerial, current.ChangeSerial) ||
		w.Interfaces != nil && !slices.Equal(*w.Interfaces, current.Interfaces)
}

// differs reports whether an attribute is requested with another value than the current one.
func differs(requested *string, current string) bool {
	return requested != nil && *requested != current
}

// renames reports whether a request changes a name. An empty one may change, because an earlier version of this
// program stored nodes without names.
func renames(requested *string, current string) bool {
	return current != "" && differs(requested, current)
}

// assign sets the attributes of n that are requested, except the steps.
func (n *node) assign(w provider.Requested) {
	for to, from := range map[*string]*string{
		&n.Component: w.Component, &n.SliverType: w.SliverType, &n.Image: w.Image, &n.Hostname: w.Hostname,
		&n.ClientID: w.ClientID, &n.SliceURN: w.SliceURN, &n.SliverURN: w.SliverURN,
		&n.Power: w.Power, &n.RestartSerial: w.RestartSerial, &n.SetupStage: w.SetupStage, &n.ChangeSerial: w.ChangeSerial,
	} {
		assign(to, from)
	}
	assign(&n.Users, w.Users)
	assign(&n.Interfaces, w.Interfaces)
}

func assign[T any](target, source *T) {
	if source != nil {
		*target = *source
	}
}

// changed returns an entry for the array "changes" of the answer. The entry has the writable
// attributes that differ, with both values. The parameter previous is nil for a new node.
func changed(previous, n *node, now time.Time) object {
	c := object{}
	was := provider.Resource{provider.AttrEnsure: provider.Absent}
	if previous != nil {
		was = previous.report(now, "")
	}
	is := provider.Resource{provider.AttrEnsure: provider.Absent}
	if n.Doing != opRemove {
		is = n.report(now, "")
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		switch name {
		case provider.AttrName, provider.AttrState, provider.AttrMessage, provider.AttrAddresses, provider.AttrLogin, provider.AttrHostKeys, provider.AttrServices:
			continue
		}
		a, _ := json.Marshal(is[name])
		b, _ := json.Marshal(was[name])
		if string(a) != string(b) {
			c[name] = object{"is": is[name], "was": was[name]}
		}
	}
	return c
}
