package experimenter

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/cmd/patchbay/command"
)

// progress shows a line for each phase, and for each change of the stage of a setup. At a
// terminal, it shows one line for each phase, and redraws the current line.
type progress struct {
	out      io.Writer
	terminal bool
	colours  bool
	start    time.Time
	phase    experiment.Phase
	plans    string
}

func newProgress(out io.Writer) *progress {
	terminal := command.ToTerminal(out) && os.Getenv("TERM") != "dumb"
	return &progress{out: out, terminal: terminal, colours: terminal && os.Getenv("NO_COLOR") == "", start: time.Now()}
}

// show prints a new phase or stage of a setup. At a terminal, it redraws the line of the phase, with the
// number of slivers that have finished the phase.
func (p *progress) show(phase experiment.Phase, list []client.Sliver) {
	plans := experiment.Plans(list)
	if !p.terminal {
		if phase != p.phase || plans != "" && plans != p.plans {
			fmt.Fprintf(p.out, "[%4.1fs] %s\n", time.Since(p.start).Seconds(), strings.TrimSuffix(string(phase)+": "+plans, ": "))
		}
		p.phase, p.plans = phase, plans
		return
	}
	if p.phase != "" && phase != p.phase {
		p.finish()
	}
	p.phase = phase
	const clearLine = "\r\x1b[K"
	plans, _, _ = strings.Cut(plans, ";") // the line must not wrap
	fmt.Fprintf(p.out, "%s%s%s", clearLine, p.line(p.colour("\x1b[36m", "…")), strings.TrimSuffix(counted(phase, list)+"  "+plans, "  "))
}

func (p *progress) line(mark string) string {
	return fmt.Sprintf("%s %s %.1fs", mark, p.phase, time.Since(p.start).Seconds())
}

func (p *progress) finish() { p.end(p.colour("\x1b[32m", "✓")) }

func (p *progress) stop() { p.end(p.colour("\x1b[31m", "✗")) }

func (p *progress) end(mark string) {
	if p.terminal && p.phase != "" {
		fmt.Fprintf(p.out, "\r\x1b[K%s\n", p.line(mark))
	}
	p.phase = ""
}

func (p *progress) colour(code, text string) string {
	if !p.colours {
		return text
	}
	return code + text + "\x1b[0m"
}

// counted returns a text such as "  1 of 3", the slivers that have finished the phase.
func counted(phase experiment.Phase, list []client.Sliver) string {
	if len(list) == 0 || phase == experiment.Deleting {
		return ""
	}
	done := 0
	for _, s := range list {
		if s.Operational == string(am.Ready) || phase == experiment.Provisioning && s.Operational == string(am.NotReady) {
			done++
		}
	}
	return fmt.Sprintf("  %d of %d", done, len(list))
}
