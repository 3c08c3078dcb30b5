package netgossip

import "testing"

func TestTermsFit(t *testing.T) {
	lun, other := Terms{By: BreaksByLUN, Log: 1}, Terms{By: BreaksByLUN, Log: 2}
	for _, tc := range []struct {
		name  string
		a, b  Terms
		fit   bool
		other bool // b.Fit(a)
	}{
		{"one LUN", lun, lun, true, true},
		{"two LUNs", lun, other, false, false},
		{"LUN and API server", lun, Terms{By: BreaksByAPI}, false, false},
		{"one asks the API server, too", lun, Terms{By: BreaksByLUN | AsksAPI, Log: 1}, false, false},
		{"none are stated", lun, Terms{}, false, false},
		{"not settled", lun, Terms{By: BreaksByLUN | Unsettled, Log: 1}, false, false},
		{"both not settled", Terms{By: BreaksByLUN | Unsettled}, Terms{By: BreaksByLUN | Unsettled}, false, false},
	} {
		if tc.a.Fit(tc.b) != tc.fit || tc.b.Fit(tc.a) != tc.other {
			t.Errorf("%s: %v and %v", tc.name, tc.a.Fit(tc.b), tc.b.Fit(tc.a))
		}
	}
}

func TestTermsString(t *testing.T) {
	for want, terms := range map[string]Terms{
		"not stated":               {},
		"the LUN 00000000000000ff": {By: BreaksByLUN, Log: 255},
		"the LUN 0000000000000001, reaching the API server when the LUN is away": {By: BreaksByLUN | AsksAPI, Log: 1},
		"the LUN (not settled yet)":                              {By: BreaksByLUN | Unsettled},
		"reaching the API server":                                {By: BreaksByAPI},
		"no tie-breaker":                                         {By: BreaksByNothing},
		"(not settled yet)":                                      {By: Unsettled},
		"a way that this version does not know":                  {By: 1 << 7},
		"a way that this version does not know 0000000000000001": {By: 1 << 7, Log: 1},
		"a way that this version does not know 0000000000000001 (not settled yet)": {By: Unsettled, Log: 1},
	} {
		if got := terms.String(); got != want && got != " "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
