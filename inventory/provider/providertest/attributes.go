package providertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"patchbay/inventory/provider"
	"patchbay/rspec/match"
)

// expectedAttributes holds the type and the kind of each attribute of a node. The kind is rw
// if the manager sets and reads it, r if the manager only reads it, and w if it only sets it.
// An empty kind allows any kind.
var expectedAttributes = map[string][2]string{
	provider.AttrName:          {"string", ""},
	provider.AttrEnsure:        {"enum[present,absent]", "rw"},
	provider.AttrPower:         {"enum[on,off]", "rw"},
	provider.AttrRestartSerial: {"string", "rw"},
	provider.AttrComponent:     {"string", "rw"},
	provider.AttrSliverType:    {"string", "rw"},
	provider.AttrImage:         {"string", "rw"},
	provider.AttrHostname:      {"string", "rw"},
	provider.AttrClientID:      {"string", "rw"},
	provider.AttrSliceURN:      {"string", "rw"},
	provider.AttrSliverURN:     {"string", "rw"},
	provider.AttrUsers:         {"array[string]", "rw"},
	provider.AttrInterfaces:    {"array[string]", "rw"},
	provider.AttrGranted:       {"array[string]", "w"},
	provider.AttrSetup:         {"array[string]", "w"},
	provider.AttrSetupStage:    {"string", "rw"},
	provider.AttrChangeSerial:  {"string", "rw"},
	provider.AttrState:         {"enum[pending,changing,ready,failed]", "r"},
	provider.AttrMessage:       {"string", "r"},
	provider.AttrAddresses:     {"array[string]", "r"},
	provider.AttrOutside:       {"array[string]", "r"},
	provider.AttrLogin:         {"array[string]", "r"},
	provider.AttrProxy:         {"string", "r"},
	provider.AttrHostKeys:      {"array[string]", "r"},
	provider.AttrCapabilities:  {"array[string]", "r"},
	provider.AttrServices:      {"array[string]", "r"},
	// PROVIDER.md reserves this one; the manager does not set it yet.
	"reload_serial": {"string", "rw"},
}

// consequences holds, by optional attribute, the functions that are missing without the
// attribute.
var consequences = map[string]string{
	provider.AttrPower:         "nodes cannot be stopped and started",
	provider.AttrRestartSerial: "nodes cannot be restarted",
	provider.AttrUsers:         "no user can get a login",
	provider.AttrInterfaces:    "nodes get neither links nor public addresses",
	provider.AttrSetup:         "nothing is installed or executed on nodes",
	provider.AttrLogin:         "users do not learn where to log in",
	provider.AttrState:         "a node counts as ready as soon as get knows it",
	provider.AttrMessage:       "users do not learn why a node failed",
}

// checkAttributes checks the declared attributes, and notes what is missing without others.
func (s *suite) checkAttributes() {
	if s.p.Type != provider.TypeNode {
		s.note(ruleAttributes, "the type is %s; only the rules for all types are checked", s.p.Type)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.p.Attributes)) {
		a := s.p.Attributes[name]
		want, known := expectedAttributes[name]
		if !known {
			s.note(ruleAttributes, "Patchbay does not use %s", name)
			continue
		}
		if got := a.Type.String(); !sameType(got, want[0]) {
			s.wrong(ruleAttributes, "%s is %s and must be %s", name, got, want[0])
		}
		if want[1] != "" && a.Kind != want[1] {
			s.wrong(ruleAttributes, "%s has kind %s and must have %s", name, a.Kind, want[1])
		}
	}
	for _, name := range []string{provider.AttrEnsure, provider.AttrComponent} {
		if !s.p.Has(name) {
			s.wrong(ruleAttributes, "%s is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(consequences)) {
		if !s.p.Has(name) {
			s.note(ruleAttributes, "%s is missing, so %s", name, consequences[name])
		}
	}
	if s.p.Has(provider.AttrInterfaces) && s.p.Has(provider.AttrSetup) && !s.p.Has(provider.AttrChangeSerial) {
		s.note(ruleAttributes, "change_serial is missing, so links and steps of nodes that exist cannot change")
	}
	if s.p.Has(provider.AttrSetup) && !s.p.Has(provider.AttrServices) {
		s.note(ruleServices, "services is missing, so users do not learn which steps of setup failed")
	}
	if s.p.Has(provider.AttrSetup) && !s.p.Has(provider.AttrSetupStage) {
		s.note(ruleStages, "setup_stage is missing, so nodes are refused whose steps need more than install and execute in one stage, such as an order between nodes, scripts or owners of archives")
	}
}

// sameType reports whether the type got can stand for want: an enum may have its options in another order, and
// additional ones.
func sameType(got, want string) bool {
	a, err1 := provider.ParseType(got)
	b, err2 := provider.ParseType(want)
	lacks := func(option string) bool { return !slices.Contains(a.Options, option) }
	return err1 == nil && err2 == nil && a.Base == b.Base && !slices.ContainsFunc(b.Options, lacks)
}

// checkNode reports values of an existing node that the manager cannot use.
func (s *suite) checkNode(name string, r provider.Resource) {
	if s.p.Type != provider.TypeNode || provider.Gone(r) {
		return
	}
	o := provider.ObservedNode(r)
	for _, c := range []struct {
		attribute string
		used      int
	}{
		{provider.AttrAddresses, len(o.Addresses)}, {provider.AttrOutside, len(o.Outside)}, {provider.AttrLogin, len(o.Logins)},
		{provider.AttrHostKeys, len(o.HostKeys)}, {provider.AttrUsers, len(o.Accounts)},
	} {
		if got := len(r.List(c.attribute)); got != c.used {
			s.wrong(ruleAttributes, "%s of %s has %d items, but only %d can be used: %q", c.attribute, name, got, c.used, r.List(c.attribute))
		}
	}
	if _, _, err := match.ParseItems(r.List(provider.AttrCapabilities)); err != nil {
		s.wrong(ruleCapabilities, "capabilities of %s: %v; report each as feature=value, such as cpu.count=8", name, err)
	}
	for _, item := range r.List(provider.AttrInterfaces) {
		var i struct {
			ClientID string `json:"client_id"`
			MAC      any    `json:"mac"`
			Emulator any    `json:"emulator"`
		}
		if json.Unmarshal([]byte(item), &i) != nil {
			continue
		}
		if i.MAC != nil && i.MAC != "" && o.MACs[i.ClientID] == "" {
			s.wrong(ruleInterfaces, "mac of interface %.80q of %s is not like 02:00:00:00:00:01: %.80q", i.ClientID, name, fmt.Sprint(i.MAC))
		}
		if i.Emulator != nil && i.Emulator != "" && o.Emulators[i.ClientID] == "" {
			s.wrong(ruleInterfaces, "emulator of interface %.80q of %s is not like tbf+netem: %.80q", i.ClientID, name, fmt.Sprint(i.Emulator))
		}
	}
	for n, report := range o.Services {
		if report.State == "" {
			s.wrong(ruleServices, "item %d of services of %s has no state, or cannot be read: %.200q", n+1, name, r.List(provider.AttrServices)[n])
		}
	}
	if got := r.Text(provider.AttrProxy); got != o.Proxy {
		s.wrong(ruleAttributes, "proxy of %s is not user@host:port: %q", name, got)
	}
}
