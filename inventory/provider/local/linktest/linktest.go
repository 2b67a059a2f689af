package linktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// port is the port of the iperf3 server. An experimenter's own server has iperf3's usual port.
const port = "7373"

// MaxTime is the longest duration of each part of a measurement.
const MaxTime = time.Minute

// Result is the result of a measurement. Rates are in bit/s, and times in ms.
type Result struct {
	TCP   PerDirection `json:"tcp"`
	Delay Delay        `json:"delay"`
}

// PerDirection has the rates of TCP streams. Out is the direction from the first node to the
// second one.
type PerDirection struct {
	Out Stream `json:"out"`
	In  Stream `json:"in"`
}

// Stream has the rate of a stream's payload, and its rate with all headers, which a link's
// capacity limits.
type Stream struct {
	Goodput float64 `json:"goodput"`
	Line    float64 `json:"line"`
}

// Delay is the result of ping: there and back.
type Delay struct {
	Sent     int     `json:"sent"`
	Answered int     `json:"answered"`
	Loss     float64 `json:"loss"` // per cent
	Least    float64 `json:"least"`
	Mean     float64 `json:"mean"`
	Most     float64 `json:"most"`
}

// Measure measures the network from one node to an address of another one. Each part takes
// the time d, in whole seconds.
func Measure(ctx context.Context, from, to Node, address netip.Addr, d time.Duration) (r Result, err error) {
	if r.Delay, err = ping(ctx, from, address, d); err != nil {
		return r, err
	}
	for range 3 {
		if r.TCP, err = streams(ctx, from, to, address, d); !mayPass(err) || ctx.Err() != nil {
			break
		}
	}
	return r, err
}

// mayPass reports whether a further try may succeed. On a busy host, iperf3 3.12 has been seen not to
// end after a reversed stream, and to reset the connection that controls the streams.
func mayPass(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "control message")
}

// streams measures TCP in both directions, with an iperf3 server in the node to.
func streams(ctx context.Context, from, to Node, address netip.Addr, d time.Duration) (r PerDirection, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*d+30*time.Second)
	defer cancel()
	serving, stop := context.WithCancel(ctx)
	listening, ended := newOutput("Server listening"), make(chan error, 1)
	go func() {
		ended <- to.run(serving, listening, listening, "iperf3", "--server", "--bind", address.String(), "--port", port, "--forceflush")
	}()
	defer func() {
		stop()
		if ended != nil {
			<-ended
		}
	}()
	select {
	case <-listening.found:
	case err := <-ended:
		ended = nil
		return r, fmt.Errorf("the server of iperf3 does not start: %w", withOutput(err, listening.text.String()))
	}
	for _, part := range []struct {
		stream *Stream
		option []string
	}{{&r.Out, nil}, {&r.In, []string{"--reverse"}}} {
		// The first second, in which TCP finds its rate, does not count.
		args := append(part.option, "--client", address.String(), "--port", port, "--time", seconds(d), "--omit", "1", "--interval", "0", "--json")
		out, complaint := newOutput(""), newOutput("")
		err := from.run(ctx, out, complaint, "iperf3", args...)
		if err != nil {
			err = withOutput(err, complaint.text.String())
		}
		if *part.stream, err = parseStream(out.text.Bytes(), address.Is6(), err); err != nil {
			return r, fmt.Errorf("cannot measure TCP to %s: %w", address, err)
		}
	}
	return r, nil
}

// ping measures delay and loss to an address. It sends a hundred echo requests a second, and waits three
// seconds for the last answers.
func ping(ctx context.Context, from Node, address netip.Addr, d time.Duration) (Delay, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	out, complaint := newOutput(""), newOutput("")
	count := strconv.Itoa(int(d / (10 * time.Millisecond)))
	err := from.run(ctx, out, complaint, "ping", "-nq", "-i", "0.01", "-W", "3", "-c"+count, address.String())
	delay, ok := parseDelay(out.text.String())
	if !ok && err == nil {
		err = errors.New("the output of ping is not understood")
	}
	if !ok {
		return delay, fmt.Errorf("cannot ping %s: %w", address, withOutput(err, complaint.text.String()))
	}
	return delay, nil
}

func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }

var (
	echoes = regexp.MustCompile(`(?m)^(\d{1,9}) packets transmitted, (\d{1,9}) received,`)
	trips  = regexp.MustCompile(`(?m)^rtt min/avg/max/mdev = (\d{1,9}\.\d{1,9})/(\d{1,9}\.\d{1,9})/(\d{1,9}\.\d{1,9})/`)
)

// parseDelay reads the last lines of ping. ok is false if they are not understood. Without answers, there
// are no times.
func parseDelay(text string) (d Delay, ok bool) {
	count, times := echoes.FindStringSubmatch(text), trips.FindStringSubmatch(text)
	if count == nil {
		return d, false
	}
	d.Sent, _ = strconv.Atoi(count[1])
	d.Answered, _ = strconv.Atoi(count[2])
	if d.Sent == 0 || d.Answered > d.Sent || (times == nil) != (d.Answered == 0) {
		return Delay{}, false
	}
	d.Loss = 100 * float64(d.Sent-d.Answered) / float64(d.Sent)
	if times != nil {
		d.Least, _ = strconv.ParseFloat(times[1], 64)
		d.Mean, _ = strconv.ParseFloat(times[2], 64)
		d.Most, _ = strconv.ParseFloat(times[3], 64)
	}
	return d, true
}

// parseStream reads the JSON of an iperf3 client, which ended with the error end. The other
// node may have written each value.
func parseStream(text []byte, v6 bool, end error) (s Stream, err error) {
	var answer struct {
		Error string
		Start struct {
			MSS int `json:"tcp_mss_default"`
		}
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	err = json.Unmarshal(text, &answer)
	rate, mss := answer.End.Received.Rate, float64(answer.Start.MSS)
	switch {
	case answer.Error != "":
		return s, errors.New(clip(answer.Error))
	case end != nil:
		return s, end
	case err != nil || rate <= 0 || rate > 1e13 || mss < 1 || mss > 65535:
		return s, errors.New("the output of iperf3 is not understood")
	}
	headers := 14.0 + 20 + 20 + 12 // Ethernet, IPv4, TCP, and its option for timestamps
	if v6 {
		headers += 20
	}
	return Stream{Goodput: rate, Line: rate * (mss + headers) / mss}, nil
}

// Print writes the result as a table for people.
func (r Result) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(out, "\tthere\tback")
	fmt.Fprintf(out, "TCP\t%s\t%s\n", formatRate(r.TCP.Out.Goodput), formatRate(r.TCP.In.Goodput))
	fmt.Fprintf(out, "  with headers\t%s\t%s\n", formatRate(r.TCP.Out.Line), formatRate(r.TCP.In.Line))
	if d := r.Delay; d.Answered > 0 {
		fmt.Fprintf(out, "there and back\t%.2f ms (least %.2f, most %.2f)\n", d.Mean, d.Least, d.Most)
	}
	fmt.Fprintf(out, "  lost\t%.2f%% of %d echoes\n", r.Delay.Loss, r.Delay.Sent)
	return out.Flush()
}

func formatRate(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.2f Gbit/s", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.2f Mbit/s", v/1e6)
	}
	return fmt.Sprintf("%.1f kbit/s", v/1e3)
}

// withOutput adds what a program has printed.
func withOutput(err error, text string) error {
	if text = clip(text); text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// clip returns a short text of one line that cannot control a terminal.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(text))
	return fmt.Sprintf("%.200s", text)
}
