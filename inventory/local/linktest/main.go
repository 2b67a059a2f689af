package linktest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// Argv0 is the name under which the testbed's binary runs this program.
const Argv0 = "patchbay-linktest"

const usage = `patchbay-linktest measures the network between two machines.

On one of them:    patchbay-linktest serve [ADDRESS]
On the other one:  patchbay-linktest ADDRESS [options]

ADDRESS is a name or an address, with :PORT if it is not %d. Options:

  --time 3s      duration of each part in each direction
  --udp RATE     rate of numbered datagrams in bit/s, with k, M or G (half of
                 the rate that TCP reached, at most 10M)
  --size BYTES   size of a datagram without its headers (1000)
  --only PARTS   parts to measure, such as tcp,delay; all are tcp, delay, udp
                 and bursts
  --json         print figures for programs: rates in bit/s, times in ms,
                 loss in per cent
`

// Main runs the program with its arguments. It ends on SIGINT and SIGTERM.
func Main(args []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, args, out)
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o Options
	var udp, only string
	var asJSON bool
	f := flag.NewFlagSet(Argv0, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.DurationVar(&o.Time, "time", 0, "")
	f.StringVar(&udp, "udp", "", "")
	f.IntVar(&o.Size, "size", 0, "")
	f.StringVar(&only, "only", "", "")
	f.BoolVar(&asJSON, "json", false, "")
	var words []string
	for rest := args; ; { // options may come before and after other arguments
		if err := f.Parse(rest); errors.Is(err, flag.ErrHelp) {
			_, err = fmt.Fprintf(out, usage, Port)
			return err
		} else if err != nil {
			return fmt.Errorf("%w; \"patchbay-linktest --help\" lists the options", err)
		}
		if f.NArg() == 0 {
			break
		}
		words, rest = append(words, f.Arg(0)), f.Args()[1:]
	}
	switch {
	case len(words) > 0 && words[0] == "serve":
		if len(words) > 2 || f.NFlag() > 0 {
			return errors.New("serve takes at most one address, and no options")
		}
		return Serve(ctx, strings.Join(words[1:], ""), nil)
	case len(words) != 1:
		return errors.New("give one argument, the address to measure, or the command serve; see \"patchbay-linktest --help\"")
	}
	var err error
	if o.Rate, err = parseRate(udp); err != nil {
		return err
	}
	if only != "" {
		o.Only = strings.Split(only, ",")
	}
	r, err := Measure(ctx, words[0], o)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	return r.Print(out)
}

// parseRate accepts k, M and G; "" is 0. The result is in bit/s.
func parseRate(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	number, factor := s, 1.0
	switch s[len(s)-1] {
	case 'k', 'K':
		factor = 1e3
	case 'm', 'M':
		factor = 1e6
	case 'g', 'G':
		factor = 1e9
	}
	if factor > 1 {
		number = s[:len(s)-1]
	}
	v, err := strconv.ParseFloat(number, 64)
	if v *= factor; err != nil || math.IsNaN(v) || v <= 0 || v > maxRate {
		return 0, fmt.Errorf("%q is not a rate such as 500k, 10M or 1G", clip(s))
	}
	return v, nil
}
