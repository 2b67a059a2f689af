package radl

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/display"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/match"
	"patchbay/rspec/step"
)

// application is a program that the nodes of a system need. Ansible roles are no applications.
type application struct {
	at   Place
	name string
	path string
	// tests are the constraints on its version: at least one.
	tests        []match.Constraint
	preinstalled bool
	version      string // that the nodes have; empty if it is unknown
}

// readApplication adds the application of a feature contains (name = 'x' and version = '1' and preinstalled = 'yes')
// to the system. Ansible roles are no applications.
func (c *compiler) readApplication(s *system, f *Feature) {
	a := application{at: f.Place}
	var versions []*Feature
	for i := range f.Value.Group {
		switch g := &f.Value.Group[i]; g.Name {
		case "name":
			a.name = g.Value.String()
		case "version":
			versions = append(versions, g)
		case "preinstalled":
			a.preinstalled = g.Value.Text == "yes"
		case "path":
			a.path = g.Value.Text
		}
	}
	if _, isRole := roleOf(a.name); isRole {
		return
	}
	feature := generate.SoftwareFeature(a.name)
	for _, v := range versions {
		a.tests = append(a.tests, versionTests(feature, v.Op, v.Value.String())...)
	}
	if len(a.tests) == 0 {
		a.tests = versionTests(feature, Equal, "")
	}
	if _, err := match.New(a.tests, nil); err != nil {
		c.refuse(rspec.BadArgs, f.Place, "name a program, and a version such as '1.2'", "application %.80q: %v", a.name, err)
		return
	}
	if len(s.apps) == maxApps {
		c.refuse(rspec.TooBig, f.Place, "install some by a recipe", "system %.80q has more than %d applications", s.block.ID, maxApps)
		return
	}
	s.apps = append(s.apps, a)
}

// versionTests returns the constraints for a version: "= 1.2" also fits 1.2.3. An empty version
// is any.
func versionTests(feature, op, version string) []match.Constraint {
	if version == "" {
		op, version = AtLeast, "0"
	}
	if op != Equal {
		return []match.Constraint{{Feature: feature, Op: match.Op(op), Value: version}}
	}
	i := strings.LastIndexByte(version, '.') + 1
	last, err := strconv.ParseInt(version[i:], 10, 32)
	if err != nil { // too long to be counted, or an error
		return []match.Constraint{{Feature: feature, Op: match.Equal, Value: version}}
	}
	return []match.Constraint{{Feature: feature, Op: match.AtLeast, Value: version}, {Feature: feature, Op: match.Less, Value: version[:i] + strconv.FormatInt(last+1, 10)}}
}

// newest returns the newest version of an offer that satisfies the constraints of a.
func (a *application) newest(offer match.Capability) (version string, ok bool) {
	requirements, err := match.New(a.tests, nil)
	if err != nil {
		return "", false
	}
	grant, ok := requirements.Match(func(string) (match.Capability, bool) { return offer, true })
	if !ok {
		return "", false
	}
	return grant.Values[0].Value, true
}

// addApplications adds the applications that the image must have to the constraints of w. At a known site, an
// application that no suitable image has is installed from the site's catalogue, unless the source says that the
// image has it.
func (c *compiler) addApplications(s *system, w *generate.Want) {
	for i := range s.apps {
		a := &s.apps[i]
		with := *w
		with.Require = slices.Concat(w.Require, a.tests)
		version, isIn := "", false
		if s.site != nil {
			version, isIn = a.versionIn(s.site.Images)
		}
		switch {
		case s.site == nil:
			s.comments = append(s.comments, fmt.Sprintf("application %s: the image must have it, since the software of the site is unknown here", display.Cut(a.name, 80)))
			*w = with
		case isIn && with.TypeAt(s.site, c.o.Work) != nil:
			s.comments = append(s.comments, fmt.Sprintf("application %s: the image must have it", display.Cut(a.name, 80)))
			a.version = version
			*w = with
		default:
			c.install(s, a)
		}
	}
}

// install adds the steps that install an application from the catalogue of the site, or refuses the application.
func (c *compiler) install(s *system, a *application) {
	best := a.catalogued(s.site)
	if best == nil || a.preinstalled {
		remedy := ""
		if !c.IsFull() { // searching for a similar name is slow
			remedy = a.remedy(s.site)
		}
		c.refuse(rspec.Unsupported, a.at, remedy, "the site has no application %.80q%s", a.name, a.demand())
		return
	}
	a.version = best.Version
	if isFetched(s.site, best.Install) {
		c.warnFetched(a.at, a.name, best.Install)
	}
	s.comments = append(s.comments, fmt.Sprintf("application %s: no image has it; version %s of the site's catalogue is installed", a.name, a.version))
	s.node.Steps = append(s.node.Steps, installSteps(best)...)
}

// versionIn returns the version that the images have; empty if they have different ones. ok is false if
// none has a version that fits.
func (a *application) versionIn(images []*inventory.Image) (version string, ok bool) {
	for _, i := range images {
		switch v, fits := a.newest(i.Capabilities[generate.SoftwareFeature(a.name)]); {
		case fits && !ok:
			version, ok = v, true
		case fits && v != version:
			return "", true
		}
	}
	return version, ok
}

// catalogued returns the newest entry of the site's catalogue that fits; nil if there is none.
func (a *application) catalogued(site *inventory.Inventory) (best *inventory.Software) {
	for i := range site.Software {
		w := &site.Software[i]
		if !strings.EqualFold(w.Name, a.name) || best != nil && match.CompareVersions(w.Version, best.Version) < 0 {
			continue
		}
		offer, err := match.ParseCapability(generate.SoftwareFeature(a.name), w.Version)
		if _, ok := a.newest(offer); ok && err == nil {
			best = w
		}
	}
	return best
}

func installSteps(w *inventory.Software) (steps []generate.Step) {
	name := "install " + w.Name + " " + w.Version
	if w.Install != "" {
		steps = append(steps, generate.Step{Kind: generate.Install, Name: name, URL: w.Install, Path: "/"})
	}
	if w.Execute != "" {
		steps = append(steps, generate.Step{Kind: generate.Script, Name: name, Language: "sh", Body: []byte(w.Execute), Operation: step.Install})
	}
	return steps
}

// demand returns the constraints for messages.
func (a *application) demand() string {
	var parts []string
	for _, t := range a.tests {
		if t.Op != match.AtLeast || t.Value != "0" {
			parts = append(parts, string(t.Op)+" "+t.Value)
		}
	}
	text := ""
	if len(parts) > 0 {
		text = " with a version " + strings.Join(parts, " and ")
	}
	if a.preinstalled {
		text += " in an image that fits"
	}
	return text
}

// remedy suggests a similar name of the site.
func (a *application) remedy(site *inventory.Inventory) string {
	var known []string
	for i := range site.Software {
		known = append(known, site.Software[i].Name)
	}
	for _, image := range site.Images {
		for feature := range image.Capabilities {
			if name, ok := strings.CutPrefix(feature, "software."); ok {
				known = append(known, name)
			}
		}
	}
	slices.Sort(known)
	if word := display.Suggest(a.name, known); word != "" && !strings.EqualFold(word, a.name) {
		return fmt.Sprintf("did you mean %q?", word)
	}
	return "install it by a recipe, or add it to software in the site's inventory.yaml (its operator can)"
}

// parameters returns what the recipes of the nodes know about the applications.
func (s *system) parameters() (list []generate.Feature) {
	seen := map[string]bool{}
	add := func(name, value string) {
		if v := step.Variable(name); value != "" && !seen[v] {
			seen[v] = true
			list = append(list, generate.Feature{Name: v, Value: value})
		}
	}
	for i := range s.apps {
		a := &s.apps[i]
		for _, name := range []string{"IM_APP_" + strings.ToUpper(a.name), "IM_" + a.name} {
			add(name+"_VERSION", a.version)
			add(name+"_PATH", cmp.Or(a.path, "/usr"))
		}
	}
	return list
}
