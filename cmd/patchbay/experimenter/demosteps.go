package experimenter

import _ "embed"

// demoRequest has a data URL with an archive. The archive contains testdata/greet.pl.
//
//go:embed testdata/demo.xml
var demoRequest string

// demoStep is a heading and the commands below it. Local steps need real nodes.
type demoStep struct {
	heading  string
	local    bool
	commands []demoCommand
}

// demoCommand is a line of sh, what is shown of its output, and texts that the output must have.
type demoCommand struct {
	line  string
	shown shown
	want  []string
}

// shown is the part of a command's output that is shown.
type shown int

const (
	whole     shown = iota
	paragraph       // the first paragraph; further ones are advice
	firstNode       // the first node of an RSpec
	nothing
)

// Beginnings of command lines: calls of the user, calls about the slice, and commands on nodes.
const (
	asAlice = "patchbay call --user alice "
	onDemo  = asAlice + "--slice demo "
	onNode  = "patchbay ssh --user alice "
)

// askServer queries the installed server with the shell of a node.
const askServer = ` 'exec 3<>/dev/tcp/server/80; printf "GET / HTTP/1.0\r\n\r\n" >&3; sed "1,/^\r$/d" <&3'`

// demoSteps follow the steps that create a site and serve it.
var demoSteps = []demoStep{
	{"Create a user and a slice", false, []demoCommand{
		{"patchbay user alice", paragraph, nil},
		{"patchbay slice demo --owner alice", paragraph, []string{"urn:publicid:IDN+demo.example.org+slice+demo"}},
	}},
	{"Ask what the site offers", false, []demoCommand{
		{asAlice + "GetVersion", whole, []string{"urn:publicid:IDN+demo.example.org+authority+cm"}},
		{asAlice + "-o - ListResources", firstNode, []string{`<available now="true"/>`}},
	}},
	{"Write a request, and draw it", false, []demoCommand{
		{"cat request.xml", firstNode, nil},
		{"patchbay draw request.xml", whole, []string{"10.0.0.3"}},
		{"patchbay draw --svg request.svg request.xml", nothing, nil},
	}},
	{"Reserve it", false, []demoCommand{{onDemo + "-o manifest.xml Allocate request.xml", whole, []string{"allocated"}}}},
	{"Create the nodes, with an account for the user", false, []demoCommand{{onDemo + "Provision --wait", whole, []string{"3 notready"}}}},
	{"Start the nodes", false, []demoCommand{{onDemo + "start --wait", whole, []string{"3 ready"}}}},
	{"See what was installed, and how the links are made", false, []demoCommand{{onDemo + "Status", whole, []string{"ready"}}}},
	{"See how to log in", false, []demoCommand{
		{onDemo + "-o manifest.xml Describe", nothing, nil},
		{"cat manifest.xml", firstNode, []string{"<login "}},
		{"patchbay draw manifest.xml", whole, []string{"far"}},
		{"patchbay draw --svg manifest.svg manifest.xml", nothing, nil},
	}},

	{"Log in, and write a file", true, []demoCommand{
		{onNode + `server 'echo written before the restart > note; echo "I am $(id -un) on $(hostname)"'`, whole, []string{"I am alice on server"}},
		{onNode + `near 'echo "I am $(id -un) on $(hostname)"'`, whole, []string{"I am alice on near"}},
		{onNode + `far 'echo "I am $(id -un) on $(hostname)"'`, whole, []string{"I am alice on far"}},
	}},
	{"Log in from one node to the other", true, []demoCommand{
		{onNode + "server 'ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new near hostname'", whole, []string{"near"}},
	}},
	{"Ask inside a node for its slice and manifest", true, []demoCommand{
		{onNode + "server 'geni-get client_id; geni-get slice_urn'", whole, []string{"server", "urn:publicid:IDN+demo.example.org+slice+demo"}},
		{onNode + `server geni-get manifest | grep -o '<node client_id="[^"]*"'`, whole, []string{`"server"`, `"near"`, `"far"`}},
	}},
	{"Query the installed server over the LAN", true, []demoCommand{
		{onNode + "near" + askServer, whole, []string{"hello from server to 10.0.0.2"}},
		{onNode + "far" + askServer, whole, []string{"hello from server to 10.0.0.3"}},
	}},
	// It only shows the reason if the host has no iperf3.
	{"Measure the LAN: 100 Mbit/s and 2 ms each way to near; 10 Mbit/s to far, 2 back, and 25 ms", true, []demoCommand{
		{"patchbay-local linktest --time 2s providers/local.yaml near server || true", whole, nil},
		{"patchbay-local linktest --time 2s providers/local.yaml far server || true", whole, nil},
	}},
	{"Restart the nodes; files and host keys stay", true, []demoCommand{
		{onDemo + "restart --wait", whole, []string{"3 ready"}},
		{onNode + "server 'cat note; ls /opt/greet'", whole, []string{"written before the restart", "greet.pl"}},
	}},
	{"Give a second user an account", true, []demoCommand{
		{"patchbay user bob", paragraph, nil},
		{onDemo + "PerformOperationalAction update_users --wait --login bob", whole, []string{"3 ready"}},
		{onNode + "server id bob", whole, []string{"(bob)"}},
	}},

	{"Extend the lease", false, []demoCommand{{onDemo + "Renew 48h", whole, nil}}},
	{"Delete the nodes", false, []demoCommand{{onDemo + "Delete", whole, []string{"unallocated"}}}},
	{"Check that nothing is left", false, []demoCommand{{onDemo + "Status || true", whole, []string{"SEARCHFAILED (12)"}}}},
}
