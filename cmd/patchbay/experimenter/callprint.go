package experimenter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

// answer is the value of a reply, divided by how its parts are shown, and how to show them.
type answer struct {
	slivers []xmlrpc.Struct
	rspec   string
	rest    xmlrpc.Value
	logs    bool // show the output of all steps
	brief   bool // hide interfaces and successful steps
	urns    bool // show URNs, and states as in the API
	now     time.Time
	nodes   map[string]experiment.Node // by the URN of a sliver
	key     string                     // the file with the user's private SSH key; "" for none
	// account is the user's account on nodes. It is "" if the account of another user may be shown.
	account string
}

// readValue finds the slivers and the RSpec in the value of a reply, of any method of both API versions.
// All else is in rest.
func readValue(v xmlrpc.Value) answer {
	switch v := v.(type) {
	case string:
		if text, err := client.Unpack(v); err == nil && strings.Contains(text, "<rspec") {
			return answer{rspec: text}
		}
	case []xmlrpc.Value:
		if s := sliversIn(v); s != nil {
			return answer{slivers: s}
		}
	case xmlrpc.Struct:
		var a answer
		var rest xmlrpc.Struct
		for _, m := range v {
			switch m.Name {
			case "geni_rspec":
				if text, ok := m.Value.(string); ok {
					a.rspec = readValue(text).rspec
				}
			case "geni_slivers", "geni_resources":
				list, _ := m.Value.([]xmlrpc.Value)
				a.slivers = sliversIn(list)
			default:
				rest = append(rest, m)
			}
		}
		if len(rest) > 0 {
			a.rest = rest
		}
		return a
	}
	return answer{rest: v}
}

// sliversIn returns nil if the list has anything besides slivers.
func sliversIn(list []xmlrpc.Value) []xmlrpc.Struct {
	var out []xmlrpc.Struct
	for _, v := range list {
		s, ok := v.(xmlrpc.Struct)
		if !ok {
			return nil
		}
		_, v3 := s.Get("geni_sliver_urn")
		_, v2 := s.Get("geni_status")
		if !v3 && !v2 {
			return nil
		}
		out = append(out, s)
	}
	return out
}

func (a answer) print(w io.Writer) {
	if rest := a.shownRest(); rest != nil && rest != "" {
		printValue(w, rest, "")
	}
	if len(a.slivers) > 0 {
		a.printSlivers(w)
	}
}

// shownRest leaves out geni_urn if slivers are shown.
func (a answer) shownRest() xmlrpc.Value {
	s, ok := a.rest.(xmlrpc.Struct)
	if !ok || a.urns || len(a.slivers) == 0 {
		return a.rest
	}
	s = slices.DeleteFunc(slices.Clone(s), func(m xmlrpc.Member) bool { return m.Name == "geni_urn" })
	if len(s) == 0 {
		return nil
	}
	return s
}

type column struct {
	heading string
	text    func(answer, xmlrpc.Struct) string
}

// firstOf returns a column's text: the first of the members that is not empty.
func firstOf(members ...string) func(answer, xmlrpc.Struct) string {
	return func(_ answer, s xmlrpc.Struct) string {
		text := ""
		for _, m := range members {
			text = cmp.Or(text, memberText(s, m))
		}
		return text
	}
}

var (
	shortColumns = []column{
		{"NODE", firstOf("geni_client_id", "geni_sliver_urn", "geni_urn")},
		{"STATE", func(_ answer, s xmlrpc.Struct) string { return shortState(s) }},
		{"ADDRESSES", answer.addresses},
		{"BEGINS", timeOf("geni_start_time")},
		{"ENDS", timeOf("geni_end_time")},
		{"UNTIL", timeOf("geni_expires")},
		{"LOGIN", answer.login},
		{"ERROR", firstOf("geni_error")},
	}
	allColumns = []column{
		{"NODE", firstOf("geni_client_id")},
		{"SLIVER", sliverURN},
		{"ALLOCATION", firstOf("geni_allocation_status")},
		{"STATE", firstOf("geni_operational_status", "geni_status")},
		{"ADDRESSES", answer.addresses},
		{"BEGINS", firstOf("geni_start_time")},
		{"ENDS", firstOf("geni_end_time")},
		{"EXPIRES", firstOf("geni_expires")},
		{"LOGIN", answer.login},
		{"ERROR", firstOf("geni_error")},
	}
	sliverURN = firstOf("geni_sliver_urn", "geni_urn")
)

// shortState returns the operational state of a provisioned sliver, else the allocation
// state, without geni_.
func shortState(s xmlrpc.Struct) string {
	state := cmp.Or(memberText(s, "geni_operational_status"), memberText(s, "geni_status"))
	if allocation := memberText(s, "geni_allocation_status"); allocation != "" && (allocation != string(am.Provisioned) || state == "") {
		state = allocation
	}
	return strings.TrimPrefix(state, "geni_")
}

// timeOf returns the function of a column for the time that is the member of that name.
func timeOf(name string) func(answer, xmlrpc.Struct) string {
	return func(a answer, s xmlrpc.Struct) string {
		text := memberText(s, name)
		at, err := display.ParseExpires(text)
		if err != nil || a.now.IsZero() {
			return text
		}
		return command.TimeAndDistance(at, a.now)
	}
}

// login returns a command line, a remark or "".
func (a answer) login(s xmlrpc.Struct) string {
	n := a.nodes[sliverURN(a, s)]
	switch {
	case !n.Login.Exists():
		return ""
	case a.account != "" && n.Login.User != a.account:
		return session.NoAccount(a.account)
	}
	return display.Line(loginCommand(n, a.key))
}

func (a answer) addresses(s xmlrpc.Struct) string {
	return display.Line(addressesOf(a.nodes[sliverURN(a, s)]))
}

func (a answer) printSlivers(w io.Writer) {
	columns := shortColumns
	if a.urns {
		columns = allColumns
	}
	headings := make([]string, len(columns))
	for i, c := range columns {
		headings[i] = c.heading
	}
	var rows [][]string
	for _, s := range a.slivers {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = c.text(a, s)
		}
		rows = append(rows, row)
	}
	printTable(w, headings, rows)
	a.printExtensions(w)
}

func jsonOf(v xmlrpc.Value) any {
	switch v := v.(type) {
	case xmlrpc.Struct:
		out := map[string]any{}
		for _, m := range v {
			out[m.Name] = jsonOf(m.Value)
		}
		return out
	case []xmlrpc.Value:
		out := make([]any, len(v))
		for i := range v {
			out[i] = jsonOf(v[i])
		}
		return out
	case time.Time:
		return client.Time(v)
	}
	return v
}

// jsonText uses the names of the API.
func jsonText(r client.Reply) (string, error) {
	code := map[string]any{"geni_code": int(r.Code)}
	if r.AMType != "" {
		code["am_type"], code["am_code"] = r.AMType, r.Detail
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(map[string]any{"code": code, "value": jsonOf(r.Value), "output": r.Output})
	return b.String(), err
}

func memberText(v xmlrpc.Value, name string) string {
	s, _ := v.(xmlrpc.Struct)
	x, ok := s.Get(name)
	if !ok {
		return ""
	}
	if text, ok := xmlrpc.AsString(x); ok {
		return display.Printable(text)
	}
	return scalar(x)
}

// printTable leaves out columns that are empty in all rows.
func printTable(w io.Writer, headings []string, rows [][]string) {
	t := &command.Table{Out: w, Narrow: true}
	t.Head(headings...)
	for _, row := range rows {
		t.Row(row...)
	}
	_ = t.Flush("") // package main reports write errors
}

func printValue(w io.Writer, v xmlrpc.Value, indent string) {
	switch v := v.(type) {
	case xmlrpc.Struct:
		for _, m := range v {
			printMember(w, display.Printable(m.Name)+":", m.Value, indent)
		}
	case []xmlrpc.Value:
		for _, item := range v {
			printMember(w, "-", item, indent)
		}
	default:
		fmt.Fprintf(w, "%s%s\n", indent, scalar(v))
	}
}

// printMember prints a single value on one line, and other values on indented lines below.
func printMember(w io.Writer, head string, v xmlrpc.Value, indent string) {
	s, _ := v.(xmlrpc.Struct)
	list, _ := v.([]xmlrpc.Value)
	if len(s)+len(list) == 0 {
		fmt.Fprintln(w, strings.TrimRight(indent+head+" "+scalar(v), " "))
		return
	}
	fmt.Fprintf(w, "%s%s\n", indent, head)
	printValue(w, v, indent+"  ")
}

func scalar(v xmlrpc.Value) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return display.Printable(v)
	case []byte:
		return display.Printable(string(v))
	case time.Time:
		return client.Time(v)
	case xmlrpc.Struct, []xmlrpc.Value:
		return "none"
	}
	return fmt.Sprint(v)
}

// printExtensions prints the members that this software adds to the slivers of the API: interfaces,
// steps of the setup, and the output of steps.
func (a answer) printExtensions(w io.Writer) {
	var interfaceRows [][]string
	var steps []experiment.NodeStep
	var outputs []string
	hidden := 0 // outputs that are not shown
	for _, s := range a.slivers {
		node := cmp.Or(memberText(s, "geni_client_id"), sliverURN(a, s))
		interfaces, _ := s.Get("patchbay_interfaces")
		list, _ := interfaces.([]xmlrpc.Value)
		for _, v := range list {
			if mac, emulator := memberText(v, "mac"), memberText(v, "emulator"); mac+emulator != "" && !a.brief {
				interfaceRows = append(interfaceRows, []string{node, memberText(v, "client_id"), memberText(v, "link"), mac, emulator})
			}
		}
		services, _ := client.ParseServices(s) // --json shows malformed ones
		for _, v := range services {
			hasFailed := experiment.IsStep(v, am.StepFailed)
			if a.brief && !hasFailed {
				continue
			}
			steps = append(steps, experiment.NodeStep{Service: v, Node: node})
			switch {
			case v.Output == "":
			case a.logs || hasFailed:
				outputs = append(outputs, outputOf(node, v))
			default:
				hidden++
			}
		}
	}
	if len(interfaceRows) > 0 {
		fmt.Fprintln(w)
		printTable(w, []string{"NODE", "INTERFACE", "LINK", "MAC", "EMULATOR"}, interfaceRows)
	}
	if len(steps) > 0 {
		fmt.Fprintln(w)
		_ = stepTable(w, steps, a.now, a.logs).Flush("") // package main reports write errors
	}
	for _, text := range outputs {
		fmt.Fprintln(w)
		fmt.Fprintln(w, text)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "\n--logs shows the output of %s.\n", display.Count(hidden, "other step"))
	}
}

// outputShown is a number of lines.
const outputShown = 20

func outputOf(node string, step client.Service) string {
	lines := strings.Split(strings.TrimRight(display.Printable(step.Output), "\n"), "\n")
	head := fmt.Sprintf("output of %s, step %d:", node, step.Step)
	if before := len(lines) - outputShown; before > 0 {
		lines = lines[before:]
		head = fmt.Sprintf("output of %s, step %d, without the first %s; nodes of the local testbed keep all of it in /var/log/patchbay/%d-%s.log",
			node, step.Step, display.Count(before, "line"), step.Step, display.Line(step.Kind))
	}
	return head + "\n    " + strings.Join(lines, "\n    ")
}
