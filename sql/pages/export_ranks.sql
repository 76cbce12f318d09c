-- One row per rank with steps of the range: what its process is called.
--
-- rank         INTEGER  Rank.
-- host         VARCHAR  Host; NULL unknown.
-- device_index INTEGER  Device; NULL without one.
--
-- How: Parameters: $run, $first_step, $last_step.
SELECT
    windows.rank,
    any_value(ranks.host) AS host,
    any_value(ranks.device_index) AS device_index
FROM rank_steps AS windows
LEFT JOIN ranks ON windows.run = ranks.run AND windows.rank = ranks.rank
WHERE windows.run = $run AND windows.step BETWEEN $first_step AND $last_step
GROUP BY windows.rank
ORDER BY windows.rank
