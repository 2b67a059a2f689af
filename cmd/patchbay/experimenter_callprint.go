package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/xmlrpc"
)

// answer is the value of a reply, divided into slivers, RSpec and the rest.
type answer struct {
	slivers []xmlrpc.Struct
	rspec   string
	rest    xmlrpc.Value // everything else
	logs    bool         // show the output of all steps
	brief   bool         // hide interfaces and successful steps
	urns    bool         // show URNs, and states as in the API
	now     time.Time
	logins  map[string]string // command lines, by the URN of a sliver
}

// readValue divides the value of a reply, for every method of both API versions.
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

// sliversIn returns the slivers of a list, or nil if anything else is in it.
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

// print prints everything but the RSpec.
func (a answer) print(w io.Writer) {
	if rest := a.shownRest(); rest != nil && rest != "" {
		printValue(w, rest, "")
	}
	if len(a.slivers) > 0 {
		a.printSlivers(w)
	}
}

// shownRest returns the rest of the value. If slivers are shown, it leaves out geni_urn.
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

// column is a column of the table of slivers: its heading, and its text for a sliver.
type column struct {
	heading string
	text    func(answer, xmlrpc.Struct) string
}

// firstOf returns a function for a column's text. The text is the first of these members
// that is not empty.
func firstOf(members ...string) func(answer, xmlrpc.Struct) string {
	return func(_ answer, s xmlrpc.Struct) string {
		text := ""
		for _, m := range members {
			text = cmp.Or(text, memberText(s, m))
		}
		return text
	}
}

// shortColumns have names and short states; allColumns have the values of the API.
var (
	shortColumns = []column{
		{"NODE", firstOf("geni_client_id", "geni_sliver_urn", "geni_urn")},
		{"STATE", func(_ answer, s xmlrpc.Struct) string { return shortState(s) }},
		{"UNTIL", answer.leaseEnd},
		{"LOGIN", answer.login},
		{"ERROR", firstOf("geni_error")},
	}
	allColumns = []column{
		{"NODE", firstOf("geni_client_id")},
		{"SLIVER", sliverURN},
		{"ALLOCATION", firstOf("geni_allocation_status")},
		{"STATE", firstOf("geni_operational_status", "geni_status")},
		{"EXPIRES", firstOf("geni_expires")},
		{"LOGIN", answer.login},
		{"ERROR", firstOf("geni_error")},
	}
	sliverURN = firstOf("geni_sliver_urn", "geni_urn")
)

// shortState returns the state of a sliver in one word, without geni_. It is the
// operational state for a provisioned sliver, else the allocation state.
func shortState(s xmlrpc.Struct) string {
	state := cmp.Or(memberText(s, "geni_operational_status"), memberText(s, "geni_status"))
	if allocation := memberText(s, "geni_allocation_status"); allocation != "" && (allocation != string(am.Provisioned) || state == "") {
		state = allocation
	}
	return strings.TrimPrefix(state, "geni_")
}

// leaseEnd returns the end of a sliver's lease, and the remaining time.
func (a answer) leaseEnd(s xmlrpc.Struct) string {
	text := memberText(s, "geni_expires")
	at, err := display.ParseExpires(text)
	if err != nil || a.now.IsZero() {
		return text
	}
	return timeAndDistance(at, a.now)
}

// login returns the command line that logs in to the node of a sliver, or "".
func (a answer) login(s xmlrpc.Struct) string { return display.Line(a.logins[sliverURN(a, s)]) }

// printSlivers prints the table of slivers, and their extensions.
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
	printExtensions(w, a.slivers, a.logs, a.brief)
}

// jsonOf converts a value to the types of encoding/json.
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

// jsonText returns a whole reply as JSON, with the names of the API.
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

// memberText returns a member of a struct as printable text, or "".
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

// printTable prints rows. It leaves out columns that are empty in all rows.
func printTable(w io.Writer, headings []string, rows [][]string) {
	t := &table{out: w, narrow: true, heading: headings}
	for _, row := range rows {
		t.row(row...)
	}
	_ = t.flush("") // run reports write errors
}

// printValue writes a value as an indented list of names and values.
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

// printMember prints a named value on one line, or on indented lines below.
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

// scalar returns a single value, or an empty list or struct, as printable text.
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

// printExtensions prints the members that this software adds to the slivers of the API:
// interfaces, install and execute steps, and the output of failed steps. If logs is true,
// it prints the output of all steps. If brief is true, it prints only failed steps.
func printExtensions(w io.Writer, slivers []xmlrpc.Struct, logs, brief bool) {
	list := func(s xmlrpc.Struct, name string) []xmlrpc.Value {
		v, _ := s.Get(name)
		items, _ := v.([]xmlrpc.Value)
		return items
	}
	var wires, steps [][]string
	var outputs []string
	hidden := 0 // outputs that are not shown
	for _, s := range slivers {
		node := cmp.Or(memberText(s, "geni_client_id"), memberText(s, "geni_sliver_urn"), memberText(s, "geni_urn"))
		for _, v := range list(s, "patchbay_interfaces") {
			if mac, emulator := memberText(v, "mac"), memberText(v, "emulator"); mac+emulator != "" && !brief {
				wires = append(wires, []string{node, memberText(v, "client_id"), memberText(v, "link"), mac, emulator})
			}
		}
		for _, v := range list(s, "patchbay_services") {
			state := memberText(v, "state")
			if brief && state != string(am.StepFailed) {
				continue
			}
			if exit := memberText(v, "exit"); exit != "" && exit != "0" {
				state += " (" + exit + ")"
			}
			steps = append(steps, []string{node, memberText(v, "step"), memberText(v, "kind"), shortData(memberText(v, "what")), state, memberText(v, "message")})
			switch text := memberText(v, "output"); {
			case text == "":
			case logs || memberText(v, "state") == string(am.StepFailed):
				outputs = append(outputs, outputOf(node, v, text))
			default:
				hidden++
			}
		}
	}
	if len(wires) > 0 {
		fmt.Fprintln(w)
		printTable(w, []string{"NODE", "INTERFACE", "LINK", "MAC", "EMULATOR"}, wires)
	}
	if len(steps) > 0 {
		fmt.Fprintln(w)
		printTable(w, []string{"NODE", "STEP", "KIND", "WHAT", "STATE", "MESSAGE"}, steps)
	}
	for _, text := range outputs {
		fmt.Fprintln(w)
		fmt.Fprintln(w, text)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "\n--logs shows the output of %s.\n", display.Count(hidden, "other step"))
	}
}

// shortData returns a URL, without the content if it is a data URL.
func shortData(url string) string {
	if head, _, ok := strings.Cut(url, ","); ok && strings.HasPrefix(head, "data:") {
		return head + ",…"
	}
	return url
}

// outputShown is the number of lines that are shown at the end of a step's output.
const outputShown = 20

// outputOf returns a heading and the end of a step's output, at most outputShown lines.
func outputOf(node string, step xmlrpc.Value, text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	number := memberText(step, "step")
	head := fmt.Sprintf("output of %s, step %s:", node, number)
	if before := len(lines) - outputShown; before > 0 {
		lines = lines[before:]
		head = fmt.Sprintf("output of %s, step %s, without the first %s; nodes of the local testbed keep all of it in /var/log/patchbay/%s-%s.log",
			node, number, display.Count(before, "line"), number, memberText(step, "kind"))
	}
	return head + "\n    " + strings.Join(lines, "\n    ")
}
