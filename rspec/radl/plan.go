package radl

import (
	"fmt"
	"slices"
	"strings"

	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/step"
)

// maxDeadline is the highest deadline of the setup extension, in seconds.
const maxDeadline = 30 * 24 * 60 * 60

// planOptions reads the deadline and the options of the plan.
func (c *compiler) planOptions() {
	if c.plan == nil {
		return
	}
	if c.request.Deadline = c.plan.Deadline; c.plan.Deadline > maxDeadline {
		c.refuse(rspec.BadArgs, c.plan.Place, fmt.Sprintf("write at most %d seconds", maxDeadline), "the plan has a deadline of %d seconds", c.plan.Deadline)
	}
	for i := range c.plan.Options {
		if f := &c.plan.Options[i]; f.Name == "ansible_version" {
			c.request.Ansible = c.oneLine(f)
		}
	}
}

// hasLines reports whether the lines of the plan decide what runs. Without lines the recipe with
// the name of a system runs on its nodes, except if the plan is "contextualize ()".
func (c *compiler) hasLines() bool { return c.plan != nil && len(c.plan.Items) > 0 }

func (c *compiler) runsNothing() bool {
	return c.plan != nil && len(c.plan.Items) == 0 && len(c.plan.Options) == 0 && c.plan.Deadline == 0
}

// linesOf returns what runs on the nodes of a system.
func (c *compiler) linesOf(system string) []PlanItem {
	if c.lines == nil {
		c.lines = map[string][]PlanItem{}
		if c.hasLines() {
			for _, item := range c.plan.Items {
				c.lines[item.System] = append(c.lines[item.System], item)
			}
		} else if !c.runsNothing() {
			for id := range c.systemBlocks {
				if r := c.recipes[id]; r != nil {
					c.lines[id] = []PlanItem{{Place: r.Place, System: id, Recipe: id, Step: 1}}
				}
			}
		}
	}
	return c.lines[system]
}

// runsAnsible reports whether Ansible runs on the nodes of a system.
func (c *compiler) runsAnsible(system string) bool {
	return slices.ContainsFunc(c.linesOf(system), func(item PlanItem) bool {
		return item.Tool != CloudInit && c.recipes[item.Recipe].Text != ""
	})
}

// addSteps adds the steps of recipes to the nodes of s.
func (c *compiler) addSteps(s *system) {
	n := &s.node
	if roles := c.rolesOf(s); len(roles) > 0 {
		n.Steps = append(n.Steps, rolesStep(s.site, roles))
	}
	var bodies []string
	for _, item := range c.linesOf(s.block.ID) {
		r := c.recipes[item.Recipe]
		switch {
		case r.Text == "":
		case item.Step > step.MaxStage:
			c.refuse(rspec.Unsupported, item.Place, fmt.Sprintf("use steps from 0 to %d", step.MaxStage), "step %d is too high", item.Step)
		case item.Tool == CloudInit:
			bodies = append(bodies, r.Text)
		default:
			p := c.playbook(r, item.Place)
			if len(p.body) == 0 {
				continue
			}
			c.checkRoles(r, p)
			if !c.hasLines() {
				s.comments = append(s.comments, fmt.Sprintf("recipe %s: it runs in step 1, since it has the name of the system and contextualize has no lines", r.ID))
			}
			n.Steps = append(n.Steps, generate.Step{Kind: generate.Script, Name: "configure " + r.ID, Stage: item.Step, Language: "ansible", Body: p.body, Files: p.files, Again: p.usesGroups()})
			if len(p.body) > maxBody {
				c.refuse(rspec.TooBig, r.Place, "divide it into several, or put files on a web server", "recipe %.80q has more than %d bytes", r.ID, maxBody)
			}
		}
	}
	if len(bodies) > 0 {
		body := userData(bodies)
		n.Steps = append(n.Steps, generate.Step{Kind: generate.UserData, Name: "cloud-init", Body: body})
		if len(body) > maxBody {
			c.refuse(rspec.TooBig, s.block.Place, "put files on a web server", "the recipes for cloud-init of system %.80q have more than %d bytes", s.block.ID, maxBody)
		}
	}
	if len(n.Steps) > maxSteps {
		c.refuse(rspec.TooBig, s.block.Place, "put several recipes into one", "system %.80q has more than %d steps", s.block.ID, maxSteps)
	}
	if slices.ContainsFunc(n.Steps, func(x generate.Step) bool { return x.Kind == generate.Script }) {
		n.Parameters = append(s.parameters(), c.document()...)
	}
}

// Limits of package rspec.
const (
	maxBody  = 64 << 10 // bytes
	maxSteps = 200
)

// multipartBoundary is fixed, so that equal documents give equal requests. A body that has it is
// not valid user data anyway.
const multipartBoundary = "==patchbay-user-data=="

// userData returns one text for cloud-init.
func userData(bodies []string) []byte {
	for i, text := range bodies {
		if !hasUserDataType(text) {
			bodies[i] = "#cloud-config\n" + text
		}
	}
	if len(bodies) == 1 {
		return []byte(bodies[0])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n", multipartBoundary)
	for _, text := range bodies {
		fmt.Fprintf(&b, "\n--%s\nContent-Type: %s; charset=\"utf-8\"\n\n%s\n", multipartBoundary, mimeType(text), text)
	}
	fmt.Fprintf(&b, "\n--%s--\n", multipartBoundary)
	return []byte(b.String())
}

// userDataTypes are beginnings of user data, with their MIME types.
var userDataTypes = [][2]string{
	{"#cloud-config", "text/cloud-config"}, {"#!", "text/x-shellscript"}, {"#include", "text/x-include-url"},
	{"#cloud-boothook", "text/cloud-boothook"}, {"Content-Type:", "multipart/mixed"}, {"MIME-Version:", "multipart/mixed"},
}

func hasUserDataType(text string) bool {
	return slices.ContainsFunc(userDataTypes, func(t [2]string) bool { return strings.HasPrefix(text, t[0]) })
}

func mimeType(text string) string {
	i := slices.IndexFunc(userDataTypes, func(t [2]string) bool { return strings.HasPrefix(text, t[0]) })
	return userDataTypes[i][1]
}
