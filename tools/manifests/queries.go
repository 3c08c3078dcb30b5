package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// checkQueries parses the chart's alerts and dashboard as Prometheus does.
func checkQueries(chart string) error {
	p := parser.NewParser(parser.Options{})
	alerts, err := os.ReadFile(filepath.Join(chart, "files/alerts.yaml"))
	if err != nil {
		return err
	}
	dashboard, err := os.ReadFile(filepath.Join(chart, "files/dashboard.json"))
	if err != nil {
		return err
	}
	return errors.Join(checkAlerts(p, alerts), checkDashboard(p, dashboard))
}

func checkAlerts(p parser.Parser, text []byte) error {
	_, problems := rulefmt.Parse(text, false, model.UTF8Validation, p, slog.New(slog.DiscardHandler))
	if len(problems) > 0 {
		return fmt.Errorf("alerts: %w", errors.Join(problems...))
	}
	return nil
}

// checkDashboard parses the query of every target, after it has replaced Grafana's variables.
func checkDashboard(p parser.Parser, text []byte) error {
	var d struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$group", "g", "$node", "n")
	var problems []error
	queries := 0
	for _, panel := range d.Panels {
		for _, t := range panel.Targets {
			queries++
			if _, err := p.ParseExpr(variables.Replace(t.Expr)); err != nil {
				problems = append(problems, fmt.Errorf("dashboard: panel %q: %s: %w", panel.Title, t.Expr, err))
			}
		}
	}
	if queries == 0 {
		problems = append(problems, errors.New("dashboard: no panel has a query: add targets with an expression"))
	}
	return errors.Join(problems...)
}
