"""What all rules share: findings, the register of rules, the nodes around one, the judgement."""
