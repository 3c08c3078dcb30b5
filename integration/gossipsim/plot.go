package gossipsim

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"time"
)

// Curve is one distribution of a plot.
type Curve struct {
	Label  string
	Color  int  // curves of one color belong together
	Dashed bool // tells them apart
	Distribution
}

// The layout of a plot, in pixels.
const (
	plotWidth, plotHeight = 900, 470
	plotLeft, plotTop     = 64, 48
	plotRight, plotBottom = 20, 52
	legendLine            = 20
)

// palette can be told apart by people with color blindness (Okabe and Ito).
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// axis is the time axis, logarithmic.
type axis struct{ low, high float64 } // seconds

func (a axis) x(seconds float64) float64 {
	share := math.Log(seconds/a.low) / math.Log(a.high/a.low)
	return plotLeft + math.Max(0, math.Min(1, share))*(plotWidth-plotLeft-plotRight)
}

func y(share float64) float64 {
	return plotTop + (1-share)*(plotHeight-plotTop-plotBottom)
}

// newAxis covers all samples and the end of the simulations, which never found out.
func newAxis(curves []Curve, limit time.Duration) axis {
	a := axis{low: math.Inf(1), high: 0}
	for _, c := range curves {
		for _, s := range c.Samples {
			v := max(0.001, time.Duration(s).Seconds())
			a.low, a.high = min(a.low, v), max(a.high, v)
		}
		if c.Missing > 0 {
			a.high = max(a.high, limit.Seconds())
		}
	}
	if a.low > a.high { // no sample at all
		a.low, a.high = 1, max(1, limit.Seconds())
	}
	a.low, a.high = stepDown(a.low*0.9), a.high*1.1
	if a.high < a.low*2 {
		a.high = a.low * 2
	}
	return a
}

// stepDown returns the next of ..., 0.1, 0.2, 0.5, 1, 2, 5, ... that is not above v.
func stepDown(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{5, 2} {
		if f*decade <= v {
			return f * decade
		}
	}
	return decade
}

// WritePlot draws the shares of nodes that have found out over the time since the event,
// as an SVG picture. limit is how long the simulations went on.
func WritePlot(w io.Writer, title string, curves []Curve, limit time.Duration) error {
	var b bytes.Buffer
	height := plotHeight + legendLine*len(curves) + 12
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n",
		plotWidth, height, plotWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="%d" y="28" font-size="16">%s</text>`+"\n", plotLeft, html.EscapeString(title))
	a := newAxis(curves, limit)
	drawGrid(&b, a)
	for i, c := range curves {
		c.Samples = slices.Sorted(slices.Values(c.Samples))
		drawCurve(&b, a, c)
		drawLegend(&b, c, float64(plotHeight+legendLine*i+6))
	}
	b.WriteString("</svg>\n")
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	return nil
}

func drawGrid(b *bytes.Buffer, a axis) {
	bottom, right := y(0), float64(plotWidth-plotRight)
	for percent := 0; percent <= 100; percent += 25 {
		at := y(float64(percent) / 100)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", plotLeft, at, right, at)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%d%%</text>`+"\n", plotLeft-8, at+4, percent)
	}
	for decade := math.Pow(10, math.Floor(math.Log10(a.low))); decade <= a.high; decade *= 10 {
		for _, f := range []float64{1, 2, 5} {
			v := f * decade
			if v < a.low*0.999 || v > a.high {
				continue
			}
			fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", a.x(v), plotTop, a.x(v), bottom)
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%.3g s</text>`+"\n", a.x(v), bottom+18, v)
		}
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">time since the event</text>`+"\n", (plotLeft+right)/2, bottom+38)
}

func (c *Curve) stroke() string {
	s := fmt.Sprintf(`stroke="%s" stroke-width="2"`, palette[c.Color%len(palette)])
	if c.Dashed {
		s += ` stroke-dasharray="7 4"`
	}
	return s
}

// drawCurve draws sorted samples as steps: each node that finds out raises the share.
func drawCurve(b *bytes.Buffer, a axis, c Curve) {
	if len(c.Samples) == 0 {
		return
	}
	at := a.x(time.Duration(c.Samples[0]).Seconds())
	fmt.Fprintf(b, `<path fill="none" %s d="M%.1f %.1f`, c.stroke(), at, y(0))
	for i, s := range c.Samples {
		at = a.x(time.Duration(s).Seconds())
		fmt.Fprintf(b, "H%.1fV%.1f", at, y(float64(i+1)/float64(c.Len())))
	}
	if c.Missing > 0 {
		fmt.Fprintf(b, "H%d", plotWidth-plotRight)
	}
	b.WriteString("\"/>\n")
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", at, y(float64(len(c.Samples))/float64(c.Len())), palette[c.Color%len(palette)])
}

func drawLegend(b *bytes.Buffer, c Curve, top float64) {
	fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" %s/>`+"\n", plotLeft, top, plotLeft+36, top, c.stroke())
	text := c.Label
	if p50, ok := c.Quantile(0.5); ok {
		text += fmt.Sprintf(", median %.2f s", p50.Seconds())
	}
	if c.Missing > 0 {
		text += fmt.Sprintf(", %d of %d not before the end", c.Missing, c.Len())
	}
	fmt.Fprintf(b, `<text x="%d" y="%.1f">%s</text>`+"\n", plotLeft+46, top+4, html.EscapeString(text))
}

// Curves picks what a report has to plot.
func (r *Report) Curves(color int) []Curve {
	var curves []Curve
	for _, c := range []Curve{
		{Label: "view below quorum", Distribution: r.BelowQuorum},
		{Label: "survivors have reported LEFT", Dashed: true, Distribution: r.Left},
	} {
		if c.Len() > 0 {
			curves = append(curves, c)
		}
	}
	// A split takes every node's quorum, or none: what counts is when the views are exact.
	if r.BelowQuorum.Len() > 1 && r.Left.Len() == 0 || len(curves) == 0 && r.ExactView.Len() > 0 {
		curves = []Curve{{Label: "view is exact", Distribution: r.ExactView}}
	}
	for i := range curves {
		curves[i].Color = color
		curves[i].Label = fmt.Sprintf("%s, N=%d: %s", r.Config.Set, r.Config.Nodes, curves[i].Label)
	}
	return curves
}
