package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

const outboundQuestion = `Shall nodes reach the network outside, IPv4 only, through this host and by its
address? They will not reach private networks, nor this host. It can be changed
later: outbound in providers/local.yaml. [y/N] `

// askOutbound asks at a terminal, once; what is not clearly a yes is a no, and so
// is everything where nobody can be asked.
func askOutbound(in *os.File, out io.Writer) string {
	if !toTerminal(in) || !toTerminal(out) {
		return "no"
	}
	fmt.Fprint(out, outboundQuestion)
	const most = 100 // bytes of an answer
	answer, _ := bufio.NewReader(io.LimitReader(in, most)).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return "yes"
	}
	return "no"
}
