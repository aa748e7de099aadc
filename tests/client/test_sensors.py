"""Figures over a moving window."""

from __future__ import annotations

import math

from sharegroup.client.sensors import WINDOW_S, Sensor


def test_nothing_recorded() -> None:
    sensor = Sensor()
    assert math.isnan(sensor.average(0.0))
    assert math.isnan(sensor.maximum(0.0))
    assert (sensor.rate(0.0), sensor.count_rate(0.0)) == (0.0, 0.0)
    assert (sensor.count, sensor.total) == (0, 0.0)


def test_values_within_a_window() -> None:
    sensor = Sensor()
    for value in (1.0, 5.0, 3.0):
        sensor.record(value, 100.0)
    assert (sensor.average(101.0), sensor.maximum(101.0)) == (3.0, 5.0)
    assert sensor.rate(101.0) == 9.0 / WINDOW_S, "a window that has begun counts as a whole one"
    assert sensor.count_rate(101.0) == 3 / WINDOW_S


def test_old_samples_fall_out_and_totals_stay() -> None:
    sensor = Sensor()
    sensor.record(100.0, 0.0)
    sensor.record(2.0, WINDOW_S)
    assert sensor.average(WINDOW_S) == 51.0
    assert sensor.rate(1.5 * WINDOW_S) == 102.0 / (1.5 * WINDOW_S)
    sensor.record(4.0, 2 * WINDOW_S)
    assert sensor.average(2 * WINDOW_S) == 3.0
    assert math.isnan(sensor.average(5 * WINDOW_S))
    assert (sensor.count, sensor.total) == (3, 106.0)
